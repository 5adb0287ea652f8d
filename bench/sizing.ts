import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import type { Sql } from 'postgres';
import { createKey } from '../src/cli/keys.ts';
import type { Lifecycle } from '../src/lifecycle.ts';
import { startPostgres } from '../src/servers/postgres.ts';
import { childrenOf } from '../src/servers/processes.ts';
import { startRedis } from '../src/servers/redis.ts';
import { median, significant, whole } from './figures.ts';
import { readHotels } from './hotels.ts';
import type { Results } from './results.ts';
import { readMetric, startService } from './targets/service.ts';
import { warm } from './warm.ts';
import { makeDatabase } from './world.ts';

const FOLDER = fileURLToPath(new URL('./results/', import.meta.url));
const MIB = 1024 ** 2;
/** Rows that one transaction leaves in the queue of changes; there are at least as many hotels. */
export const QUEUE_ROWS = 2_000;
const GIGABIT_BYTES = 1e9 / 8;
const LOCAL_CACHE = 'hotel_api_local_cache_bytes';

/** What a number of hotels takes, and how fast changes are delivered. Bytes are of a hotel unless they say otherwise. */
export interface Sizes {
  at: string;
  hotels: number;
  jsonBytes: number;
  localCacheBytes: number;
  /** entry, pointers and the keys of all three */
  redisBytes: number;
  redisKeys: number;
  tableBytes: number;
  indexBytes: number;
  primaryMiB: number;
  /** beside its local cache */
  workerMiB: number;
  /** held by an instance of one worker with a pool of `poolSize` */
  connections: number;
  poolSize: number;
  /** changes a second, from commit to delivery, of one statement that changes all hotels */
  bulkHotelsPerSecond: number;
  /** of statements that change one hotel each */
  singleRowsPerSecond: number;
}

/** Measures what `count` hotels take, writes bench/results/sizing.json and prints the tables of src/docs/sizing.md. */
export async function runSizing(
  count: number,
  lifecycle: Lifecycle,
  say: (sentence: string) => void,
): Promise<void> {
  const sizes = await measure(count, lifecycle, say);
  await writeFile(`${FOLDER}sizing.json`, `${JSON.stringify(sizes, null, 1)}\n`);
  console.log(`${sizesTable(sizes)}\n\n${ratesTable(await latestResults())}`);
}

async function measure(count: number, lifecycle: Lifecycle, say: (sentence: string) => void): Promise<Sizes> {
  const postgres = await startPostgres();
  lifecycle.push('PostgreSQL', () => postgres.stop(), 12_000);
  const redis = await startRedis(say);
  if (!redis) throw new Error('there is no Redis here and none could be fetched');
  lifecycle.push('Redis', () => redis.stop(), 12_000);
  const client = new Redis(redis.url);
  lifecycle.push('client of Redis', async () => client.disconnect());
  say(`Making ${count} hotels …`);
  const { sql, databaseUrl } = await makeDatabase({ postgres, lifecycle }, 'sizing', count);
  const { key } = await createKey(sql, { name: 'sizing', scopes: ['registry'], expiresAt: null });
  const keys = { full: key, narrow: key };
  const target = await startService(
    { pin: [], databaseUrl, redisUrl: redis.url, peerRedisUrl: redis.url, keys },
    {
      name: 'service',
      environment: { L1_MAX_BYTES: String(Math.max(256 * MIB, 2_048 * count)), DATABASE_TIMEOUT_MS: '10000' },
    },
  );
  lifecycle.push('service', target.stop, 12_000);
  const hotels = await readHotels(sql);
  const redisBefore = await redisState(client);
  const cacheBefore = await readMetric(target, LOCAL_CACHE);
  say('Reading every hotel once …');
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
    at: new Date().toISOString(),
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
  say('Changing hotels …');
  const bulkS = await untilDelivered(sql, () => sql`update hotels set room_count = room_count`);
  const singleS = await untilDelivered(sql, () =>
    sql.unsafe(`do $$ declare one text; begin
        for one in select id from hotels limit ${QUEUE_ROWS} loop
          update hotels set room_count = room_count where id = one;
        end loop; end $$`),
  );
  return { ...sizes, bulkHotelsPerSecond: count / bulkS, singleRowsPerSecond: QUEUE_ROWS / singleS };
}

async function redisState(client: Redis): Promise<{ bytes: number; keys: number }> {
  const bytes = Number(/^used_memory:(\d+)/m.exec(await client.info('memory'))![1]);
  return { bytes, keys: await client.dbsize() };
}

async function residentBytes(pid: number): Promise<number> {
  return 1024 * Number(/^Pss:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/smaps_rollup`, 'utf8'))![1]);
}

/** Seconds from the commit of a change until the invalidator has taken all of it off the queue. */
async function untilDelivered(sql: Sql, change: () => PromiseLike<unknown>): Promise<number> {
  await change();
  const committedAtMs = performance.now();
  for (;;) {
    // a row that is being taken off is still seen here until that commits
    const [queue] = await sql`select exists(select from hotel_api_changes) as waits`;
    if (!queue!.waits) return (performance.now() - committedAtMs) / 1000;
    await sleep(2);
  }
}

/** The results of the whole run, or of the quick one. */
async function latestResults(): Promise<Results | undefined> {
  for (const name of ['latest', 'quick']) {
    try {
      return JSON.parse(await readFile(`${FOLDER}${name}.json`, 'utf8'));
    } catch {
      // that one was not run
    }
  }
  return undefined;
}

function sizesTable(sizes: Sizes): string {
  const perHotel = (bytes: number) =>
    `${whole(bytes)} | ${['100000', '1000000', '10000000'].map((hotels) => memory(bytes * Number(hotels))).join(' | ')}`;
  return [
    `| Measured with ${whole(sizes.hotels)} hotels of ${whole(sizes.jsonBytes)} bytes of JSON | bytes a hotel | 100,000 hotels | 1,000,000 | 10,000,000 |`,
    '|---|---|---|---|---|',
    `| local cache of a worker (\`L1_MAX_BYTES\`) | ${perHotel(sizes.localCacheBytes)} |`,
    `| Redis: ${sizes.redisKeys.toFixed(2)} keys a hotel, pointers included | ${perHotel(sizes.redisBytes)} |`,
    `| PostgreSQL: table | ${perHotel(sizes.tableBytes)} |`,
    `| PostgreSQL: indexes | ${perHotel(sizes.indexBytes)} |`,
    '',
    `Beside its local cache a worker held ${whole(sizes.workerMiB)} MiB, the primary ${whole(sizes.primaryMiB)} MiB. An instance of one worker with a pool`,
    `of ${sizes.poolSize} held ${sizes.connections} connections to PostgreSQL. The invalidator delivered ${whole(sizes.bulkHotelsPerSecond)} hotels a second of one statement that`,
    `changed all, and ${whole(sizes.singleRowsPerSecond)} a second of statements that changed one hotel each.`,
  ].join('\n');
}

/** How much a worker carries, by what is asked, from the benchmark. */
function ratesTable(results: Results | undefined): string {
  if (!results) return 'No rates: run `npm run bench -- --quick` first.';
  const rows = results.cells.flatMap(({ scenario, target, rounds }) => {
    if (target !== 'service' && target !== 'service-redis') return [];
    const hotels = Number(
      /^batch-(\d+)/.exec(scenario)?.[1] ?? (scenario.startsWith('get') ? 1 : Number.NaN),
    );
    if (Number.isNaN(hotels)) return [];
    const processorUs = median(rounds.map((round) => round.processorUs));
    const perCore = 1e6 / processorUs;
    const bodyBytes = hotels * results.meanHotelBytes;
    const from = target === 'service' ? 'local cache' : 'Redis';
    return `| ${scenario} | ${from} | ${significant(processorUs)} | ${whole(perCore)} | ${whole(perCore * hotels)} | ${significant((perCore * bodyBytes) / GIGABIT_BYTES)} |`;
  });
  return [
    '| Request | answered from | µs of processor time | requests/s of a core | hotels/s of a core | Gbit/s of bodies, uncompressed |',
    '|---|---|---|---|---|---|',
    ...rows,
  ].join('\n');
}

const memory = (bytes: number): string =>
  bytes < 1e9 ? `${whole(bytes / 1e6)} MB` : `${significant(bytes / 1e9)} GB`;
