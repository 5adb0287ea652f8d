import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import type { Shutdown } from '../src/lib/shutdown.ts';
import { childrenOf } from '../test/support/processes.ts';
import { readHotels } from './hotels.ts';
import { type Origin, originOf } from './origin.ts';
import { readMetric } from './targets/service.ts';
import { warm } from './warm.ts';
import { startAlone, untilSequenced } from './world.ts';

const FOLDER = fileURLToPath(new URL('./results/', import.meta.url));
const MIB = 1024 ** 2;
const LOCAL_CACHE = 'hotel_api_local_cache_bytes';

/** Memory of a number of hotels and speed of the log. Bytes are per hotel unless stated otherwise. */
export interface Sizes extends Origin {
  hotels: number;
  jsonBytes: number;
  localCacheBytes: number;
  /** entry, pointers and their three keys */
  redisBytes: number;
  redisKeys: number;
  tableBytes: number;
  indexBytes: number;
  primaryMiB: number;
  /** in addition to its local cache */
  workerMiB: number;
  /** of an instance with one worker and a pool of `poolSize` */
  connections: number;
  poolSize: number;
  /** changes a second, from commit to the log, of one statement that changes all hotels */
  bulkHotelsPerSecond: number;
}

/** Measures `count` hotels and writes bench/results/sizing.json, the source of docs/operations/sizing.md. */
export async function runSizing(count: number, shutdown: Shutdown): Promise<void> {
  const sizes = await measure(count, shutdown);
  await writeFile(`${FOLDER}sizing.json`, `${JSON.stringify(sizes, null, 1)}\n`);
  console.log(JSON.stringify(sizes, null, 1));
  console.error('npm run build:docs updates the tables of docs/operations/sizing.md.');
}

async function measure(count: number, shutdown: Shutdown): Promise<Sizes> {
  const { redis, sql, keys, start } = await startAlone('sizing', count, shutdown);
  const client = new Redis(redis.url);
  shutdown.push('client of Redis', async () => client.disconnect());
  const target = await start({
    L1_MAX_BYTES: String(Math.max(256 * MIB, 2_048 * count)),
    DATABASE_TIMEOUT_MS: '10000',
  });
  const hotels = await readHotels(sql);
  const redisBefore = await redisState(client);
  const cacheBefore = await readMetric(target, LOCAL_CACHE);
  console.error('Reading every hotel once …');
  await warm(target, { hotels, keys });
  await sleep(1_000);
  const redisAfter = await redisState(client);
  const cacheAfter = await readMetric(target, LOCAL_CACHE);
  const [worker] = await childrenOf(target.pid);
  const [tables] = await sql`
    select pg_table_size('hotels')::float8 as table_bytes, pg_indexes_size('hotels')::float8 as index_bytes`;
  const [connected] = await sql`
    select count(*)::int as count from pg_stat_activity where application_name like 'hotel-api %' and usename <> 'postgres'`;
  const sizes = {
    ...(await originOf(sql, redis)),
    hotels: count,
    jsonBytes: hotels.reduce((sum, { fullBytes }) => sum + fullBytes, 0) / count,
    localCacheBytes: (cacheAfter - cacheBefore) / count,
    redisBytes: (redisAfter.bytes - redisBefore.bytes) / count,
    redisKeys: (redisAfter.keys - redisBefore.keys) / count,
    tableBytes: tables!.table_bytes / count,
    indexBytes: tables!.index_bytes / count,
    primaryMiB: (await residentBytes(target.pid)) / MIB,
    workerMiB: ((await residentBytes(worker!)) - cacheAfter) / MIB,
    connections: connected!.count,
    poolSize: 8,
  };
  console.error('Changing hotels …');
  const bulkS = await untilSequenced(sql, () => sql`update hotels set room_count = room_count`);
  return { ...sizes, bulkHotelsPerSecond: count / bulkS };
}

async function redisState(client: Redis): Promise<{ bytes: number; keys: number }> {
  const bytes = Number(/^used_memory:(\d+)/m.exec(await client.info('memory'))![1]);
  return { bytes, keys: await client.dbsize() };
}

/** Returns the proportional set size of a process. */
export async function residentBytes(pid: number): Promise<number> {
  return 1024 * Number(/^Pss:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/smaps_rollup`, 'utf8'))![1]);
}
