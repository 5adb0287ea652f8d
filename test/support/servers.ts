import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import postgres, { type Sql } from 'postgres';
import type { TestProject } from 'vitest/node';
import { startPostgres } from '../../src/demo/servers/postgres.ts';
import { findRedis, findRedisProgram } from '../../src/demo/servers/redis.ts';
import { Shutdown } from '../../src/lib/shutdown.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { bundleSources } from './bundle.ts';
import { type ContainerServers, startContainers } from './containers.ts';

/** Addresses and programs of the servers that run for all test files. */
interface Servers {
  /** address for the superuser, without the database name */
  ownerUrl: string;
  /** address for a login that is a member of hotel_api_serve only, without the database name */
  serviceUrl: string;
  /** migrated database of which fresh ones are copies */
  template: string;
  /** undefined: no Redis is available */
  redisUrl: string | undefined;
  /** program with which a file may start its own Redis; undefined: none */
  redisProgram: string | undefined;
  /** first of the ports that services of this run have to themselves, below the range of the system */
  firstPort: number;
}

declare module 'vitest' {
  interface ProvidedContext {
    servers: Servers;
  }
}

const TEMPLATE = 'hotel_api_template';
const MAX_CONNECTIONS = 400;
/** Ports of one run: a hundred for each process of vitest, which count from 1, behind the port that reserves them. */
const PORTS_OF_RUN = 500;
const [FIRST_PORT, END_PORT] = [10_000, 30_000];

/**
 * Starts PostgreSQL and Redis for all test files, as containers if a Docker engine is available, else as processes.
 * TEST_SERVERS=docker or TEST_SERVERS=embedded forces one. TEST_POSTGRES names the folder of another PostgreSQL, which compiles
 * queries if it can (JIT); its tables have no statistics.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const shutdown = new Shutdown();
  try {
    await bundleSources();
    project.onTestsRerun(bundleSources);
    const firstPort = await reservePorts(shutdown);
    const { urlOf, redisUrl } = await startServers(shutdown);
    const password = randomBytes(16).toString('hex');
    await makeTemplate(urlOf, password);
    const ownerUrl = urlOf('');
    const serviceUrl = Object.assign(new URL(ownerUrl), { username: 'service', password }).href;
    project.provide('servers', {
      ownerUrl,
      serviceUrl,
      template: TEMPLATE,
      redisUrl,
      redisProgram: await findRedisProgram(console.warn),
      firstPort,
    });
  } catch (error) {
    await shutdown.close();
    throw error;
  }
  return async () => {
    const faults = await shutdown.close();
    if (faults.length > 0) throw new Error(`servers did not stop: ${faults.join('; ')}`);
  };
}

/**
 * Returns the first port of a block that no other run on this machine uses, such as the run within the test of the image: two
 * services that start on one port at the same time share its connections. The block is reserved while its first port is open.
 */
async function reservePorts(shutdown: Shutdown): Promise<number> {
  for (let port = FIRST_PORT; port < END_PORT; port += PORTS_OF_RUN) {
    const server = createServer();
    try {
      await once(server.listen({ host: '127.0.0.1', port, exclusive: true }), 'listening');
    } catch {
      continue;
    }
    server.unref();
    shutdown.push('reserved ports', async () => void server.close(), 1_000);
    return port;
  }
  throw new Error(`each block of ${PORTS_OF_RUN} ports from ${FIRST_PORT} to ${END_PORT} is in use`);
}

async function startServers(shutdown: Shutdown): Promise<ContainerServers> {
  const wanted = process.env.TEST_SERVERS ?? (process.env.TEST_POSTGRES ? 'embedded' : 'any');
  if (wanted !== 'embedded') {
    const containers = await startContainers(shutdown, MAX_CONNECTIONS).catch((error: Error) => {
      console.warn(`Docker is available, but starts no servers: ${error.message}`);
      return undefined;
    });
    if (containers) return containers;
    if (wanted !== 'any') throw new Error(`TEST_SERVERS=${wanted}, but no Docker engine starts servers`);
  }
  const server = await startPostgres({ maxConnections: MAX_CONNECTIONS });
  shutdown.push('PostgreSQL', () => server.stop(), 10_000);
  const redis = await findRedis(console.warn);
  if (redis?.server) shutdown.push('Redis', () => redis.server!.stop(), 5_000);
  return { urlOf: server.url, redisUrl: redis?.url };
}

async function makeTemplate(urlOf: (database: string) => string, password: string): Promise<void> {
  const admin = postgres(urlOf('postgres'), { max: 1, onnotice: () => {} });
  await admin`create database ${admin(TEMPLATE)}`;
  const owner = postgres(urlOf(TEMPLATE), { max: 1, onnotice: () => {} });
  await migrate(owner);
  if (process.env.TEST_POSTGRES) await dropStatistics(owner);
  await owner.end();
  await admin.unsafe(`create role service login password '${password}' in role hotel_api_serve`);
  // a template cannot be copied while it has connections
  await admin`alter database ${admin(TEMPLATE)} allow_connections false is_template true`;
  await admin.end();
}

/** Leaves the tables as the planner knows them before the first autovacuum, which is turned off. */
async function dropStatistics(sql: Sql): Promise<void> {
  for (const setting of ['autovacuum = off', 'jit = on']) await sql.unsafe(`alter system set ${setting}`);
  await sql`select pg_reload_conf()`;
  await sql`update pg_class set reltuples = -1, relpages = 0 where relkind = 'r' and relnamespace = 'public'::regnamespace`;
  await sql`delete from pg_statistic where starelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)`;
}
