import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import type { Sql } from 'postgres';
import { createKey } from '../src/cli/keys.ts';
import { DEFAULT_SEED, seed } from '../src/cli/seed.ts';
import { type PostgresServer, startPostgres } from '../src/demo/servers/postgres.ts';
import { type RedisServer, startRedis } from '../src/demo/servers/redis.ts';
import type { Shutdown } from '../src/lib/shutdown.ts';
import { openDatabase } from '../src/postgres/connect.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { type Cores, splitCores } from './cores.ts';
import { type ExpectedHotel, readHotels } from './hotels.ts';
import { startService } from './targets/service.ts';
import type { Target, TargetOptions } from './targets/target.ts';
import { findTools, type Tools, type Wanted } from './tools.ts';

const STOP_DEADLINE_MS = 12_000;
const LOGIN = 'hotel_api';
/** Redis database of the peers; those of the services under test are above it. */
const PEER_DATABASE = 1;

/** Servers behind the targets, and their data. */
export interface World {
  cores: Cores;
  tools: Tools;
  postgres: PostgresServer;
  redis: RedisServer;
  shutdown: Shutdown;
  keys: { full: string; narrow: string };
  hotels: ExpectedHotel[];
  /** connection of the owner */
  sql: Sql;
  targetOptions: TargetOptions;
  /** temporary folder, removed at the end */
  folder: string;
  log: (sentence: string) => void;
}

/** Starts PostgreSQL and Redis, which `shutdown` stops, also while they start. Throws without a Redis. */
async function startServers(
  shutdown: Shutdown,
  log: (sentence: string) => void,
): Promise<{ postgres: PostgresServer; redis: RedisServer }> {
  const startingPostgres = startPostgres({ maxConnections: 200 });
  shutdown.push(
    'PostgreSQL',
    async () => (await startingPostgres.catch(() => undefined))?.stop(),
    STOP_DEADLINE_MS,
  );
  const startingRedis = startRedis(log);
  shutdown.push('Redis', async () => (await startingRedis.catch(() => undefined))?.stop(), STOP_DEADLINE_MS);
  const [postgres, redis] = await Promise.all([startingPostgres, startingRedis]);
  if (!redis) throw new Error('no Redis was found, and none could be downloaded');
  return { postgres, redis };
}

/**
 * Starts PostgreSQL with `count` hotels and one key, and Redis, for services that are measured without peers. `start` starts
 * one, pinned to `pin`. `shutdown` releases all.
 */
export async function startAlone(name: string, count: number, shutdown: Shutdown, pin: string[] = []) {
  const { postgres, redis } = await startServers(shutdown, console.error);
  console.error(`Generating ${count} hotels …`);
  const beganAtMs = performance.now();
  const { sql, databaseUrl } = await makeDatabase({ postgres, shutdown }, name, count);
  console.error(`${count} hotels generated: ${((performance.now() - beganAtMs) / 1000).toFixed(1)} s`);
  const { key } = await createKey(sql, { name, scopes: ['registry'], expiresAt: null });
  const keys = { full: key, narrow: key };
  const start = async (environment: Record<string, string>): Promise<Target> => {
    const around = { pin, databaseUrl, redisUrl: redis.url, peerRedisUrl: '', keys };
    const target = await startService(around, { name: 'service', environment });
    shutdown.push('service', target.stop, STOP_DEADLINE_MS);
    return target;
  };
  return { postgres, redis, sql, databaseUrl, keys, start };
}

/** Starts PostgreSQL and Redis and fills them with `count` hotels. `shutdown` releases all. */
export async function startWorld(
  count: number,
  wanted: Wanted,
  shutdown: Shutdown,
  log: (sentence: string) => void,
): Promise<World> {
  const tools = await findTools(wanted);
  const cores = await splitCores();
  const folder = await mkdtemp(join(tmpdir(), 'hotel-api-bench-'));
  shutdown.push('folder', () => rm(folder, { recursive: true, force: true }), STOP_DEADLINE_MS);
  const { postgres, redis } = await startServers(shutdown, log);
  log(`Generating ${count} hotels …`);
  const keys = { full: '', narrow: '' };
  const world = { cores, tools, postgres, redis, shutdown, keys, folder, log };
  const { sql, databaseUrl } = await makeDatabase(world, 'bench', count);
  keys.full = (
    await createKey(sql, { name: 'bench, with registry', scopes: ['registry'], expiresAt: null })
  ).key;
  keys.narrow = (await createKey(sql, { name: 'bench, without', scopes: [], expiresAt: null })).key;
  const hotels = await readHotels(sql);
  const peerRedisUrl = redisUrlOf(redis, PEER_DATABASE);
  await fillPeers(peerRedisUrl, hotels);
  const targetOptions = {
    pin: cores.server,
    databaseUrl,
    redisUrl: redisUrlOf(redis, 0),
    peerRedisUrl,
    keys,
  };
  return { ...world, hotels, sql, targetOptions };
}

/** Returns the seconds from the commit of a change until all of it is in the log. An instance must run. */
export async function untilSequenced(sql: Sql, change?: () => PromiseLike<unknown>): Promise<number> {
  await change?.();
  const committedAtMs = performance.now();
  while (await isSequencingDue(sql)) await sleep(2);
  return (performance.now() - committedAtMs) / 1000;
}

/** Returns true while committed changes are not in the log. */
export async function isSequencingDue(sql: Sql): Promise<boolean> {
  const [state] = await sql`select is_due from hotel_api_poll(null, null, 1)`;
  return state!.is_due;
}

export function redisUrlOf({ port }: { port: number }, database: number): string {
  return `redis://127.0.0.1:${port}/${database}`;
}

/** Makes the schema of the release in the folder `root`, by its own command: other releases call what it may lack. */
export async function migrateBy(root: string, databaseUrl: string): Promise<void> {
  const { PATH, HOME } = process.env;
  const env = { PATH, HOME, DATABASE_URL: databaseUrl };
  await promisify(execFile)(process.execPath, ['src/main.ts', 'migrate'], { cwd: root, env });
}

/**
 * Creates a database with hotels, and the login of the service, replacing an existing one. The schema is that of this
 * release, or of the one in the folder `root`.
 */
export async function makeDatabase(
  { postgres, shutdown }: Pick<World, 'postgres' | 'shutdown'>,
  name: string,
  hotels: number,
  root?: string,
): Promise<{ sql: Sql; databaseUrl: string }> {
  const admin = openDatabase(postgres.url('postgres'), 1, { kind: 'operate' });
  const sql = openDatabase(postgres.url(name), 2, { kind: 'operate' });
  shutdown.push(`connections to ${name}`, () =>
    Promise.all([admin.end({ timeout: 0 }), sql.end({ timeout: 0 })]),
  );
  await admin`create database ${admin(name)}`;
  await (root === undefined ? migrate(sql) : migrateBy(root, postgres.url(name)));
  const password = randomBytes(16).toString('hex');
  await admin.unsafe(`drop role if exists ${LOGIN}_${name}`);
  await admin.unsafe(`create role ${LOGIN}_${name} login password '${password}' in role hotel_api_serve`);
  await seed(sql, hotels, { seed: DEFAULT_SEED, today: new Date().toISOString().slice(0, 10) });
  // commits are asynchronous here, and vacuum marks no rows as visible whose commit is not on disk
  await sql.unsafe('checkpoint');
  await sql.unsafe('vacuum analyze hotels');
  // no service under test has to list the seeded hotels
  if (root === undefined) while (await isSequencingDue(sql)) await sql`select hotel_api_sequence()`;
  await admin.end();
  const databaseUrl = Object.assign(new URL(postgres.url(name)), {
    username: `${LOGIN}_${name}`,
    password,
  }).href;
  return { sql, databaseUrl };
}

/** Stores a hotel's JSON for the peers under both of its keys: one lookup an id, the best case for them. */
export async function fillPeers(url: string, hotels: ExpectedHotel[]): Promise<void> {
  const redis = new Redis(url);
  for (let from = 0; from < hotels.length; from += 500) {
    const values: string[] = [];
    for (const { id, channelId, json } of hotels.slice(from, from + 500)) {
      values.push(`hotel:${id}`, json);
      if (channelId !== null) values.push(`hotel:channel:${channelId}`, json);
    }
    await redis.mset(values);
  }
  redis.disconnect();
}
