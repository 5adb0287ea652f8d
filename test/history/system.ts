import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import postgres, { type Sql } from 'postgres';
import { findRedisProgram } from '../../src/demo/servers/redis.ts';
import { addressOf } from '../support/address.ts';
import { BUNDLED } from '../support/bundle.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { ownReplica } from '../support/own-replica.ts';
import { type OwnServer, ownPostgres, ownRedis, redisAt } from '../support/own-server.ts';
import { pathOf } from '../support/programs.ts';
import { FaultProxy } from '../support/proxy.ts';
import { Bounds } from './bounds.ts';
import { Database } from './database.ts';
import { Instance } from './instance.ts';
import { Keys } from './key-changes.ts';
import { openWriter } from './open-writer.ts';
import { HOTELS, type Step } from './steps.ts';
import { insert, insertOthers, PLAIN_WRITER } from './writes.ts';

const INSTANCES = 2;

/** Instance with the data that its responses are compared with. */
export interface Served {
  instance: Instance;
  database: Database;
  bounds: Bounds;
  clock?: FakeClock;
}

/** Further Redis servers: one with nothing of the first, and a replica of it with its link. */
export interface OtherRedis {
  own: OwnServer;
  replica: OwnServer;
  link: FaultProxy;
}

/** System of an episode: PostgreSQL, Redis, two instances, and the histories. */
export class System {
  readonly keys = new Keys();
  readonly served: Served[] = [];
  /** databases; the first is that of the two instances */
  readonly databases: Database[] = [];
  readonly redis: OwnServer;
  readonly redisUrl: string;
  readonly redisClient: Redis;
  otherRedis: OtherRedis | undefined;
  primary: OwnServer;
  /** addresses for the service's login and the superuser; both follow the primary */
  url: string;
  ownerUrl: string;
  replica: { server: OwnServer; link: FaultProxy } | undefined;
  /** path to PostgreSQL like those of the instances, without their faults */
  #path!: FaultProxy;

  private constructor(
    { server, url, ownerUrl }: Awaited<ReturnType<typeof ownPostgres>>,
    redis: Awaited<ReturnType<typeof ownRedis>>,
  ) {
    this.primary = server;
    this.url = url;
    this.ownerUrl = ownerUrl;
    this.redis = redis.server;
    this.redisUrl = redis.url;
    this.redisClient = redisAt(redis.url).client;
  }

  /** Starts the servers that these steps need; `closeAll` stops them. */
  static async start(steps: Step[], seed: number, log: (sentence: string) => void): Promise<System> {
    const [own, redis] = await Promise.all([ownPostgres(100), redisOf(log)]);
    const system = new System(own, redis);
    system.#path = await FaultProxy.before(own.ownerUrl);
    const sql = openWriter(own.ownerUrl);
    await system.#setDurability(sql, seed % 2 === 0);
    await sql.unsafe(`create role ${PLAIN_WRITER}`);
    await sql.unsafe(`grant select, insert, update, delete, truncate on hotels, api_keys to ${PLAIN_WRITER}`);
    await system.keys.insertAll(sql);
    await insert(sql, [...Array(HOTELS - 12).keys()], 'first');
    await insertOthers(sql);
    system.databases.push(await Database.open(own.ownerUrl, 'postgres'));
    const draws = (fault: string) => steps.some((step) => step.do === 'fault' && step.fault === fault);
    if (draws('redis of its own') || draws('redis replica that lags')) await system.#addRedis(log);
    // a replica would need the same setting
    if (draws('replica promoted')) await system.#addReplica();
    else if (steps.some((step) => step.do === 'write' && step.end === 'prepare'))
      await system.#allowPrepared(sql);
    const faketime = draws('clock set') ? await pathOf('faketime') : undefined;
    await Promise.all(
      Array.from({ length: INSTANCES }, async (_, i) => {
        const clock = faketime === undefined ? undefined : await FakeClock.make(faketime);
        await system.serve(`instance ${i}`, system.databases[0]!, system.url, clock, i);
      }),
    );
    return system;
  }

  /** True if some clock may be set, so that keys expire at any time. */
  get hasClocks(): boolean {
    return this.served.some(({ clock }) => clock !== undefined);
  }

  /** Starts an instance on the database at `url` and the shared Redis. */
  async serve(name: string, database: Database, url: string, clock?: FakeClock, place = this.served.length) {
    const [path, redisPath] = await Promise.all([FaultProxy.before(url), FaultProxy.before(this.redisUrl)]);
    const env = { ...BUNDLED, WORKERS: place === 0 ? '2' : '1', DATABASE_TIMEOUT_MS: '1500', ...clock?.env };
    const instance = await Instance.start(name, { postgres: path, redis: redisPath }, env);
    await instance.ready();
    const served: Served = { instance, database, bounds: new Bounds(), ...(clock && { clock }) };
    this.served[place] = served;
    return served;
  }

  /** Runs `work` as the superuser outside the databases under test. */
  async asAdmin(work: (sql: Sql) => Promise<unknown>): Promise<void> {
    const sql = postgres(Object.assign(new URL(this.ownerUrl), { pathname: '/template1' }).href, {
      max: 1,
      onnotice: () => {},
      fetch_types: false,
    });
    try {
      await work(sql);
    } finally {
      await sql.end({ timeout: 1 });
    }
  }

  /** Opens a connection to PostgreSQL as instances do, and closes it. Takes at most this time. */
  async connect(timeoutMs: number): Promise<void> {
    const sql = postgres(this.#path.url, { max: 1, onnotice: () => {}, fetch_types: false });
    try {
      // postgres.js may never settle it
      await Promise.race([sql`select 1`, sleep(timeoutMs, undefined, { ref: false })]);
    } finally {
      await sql.end({ timeout: 0 });
    }
  }

  /** Makes the replica the primary for the instances and the writers. */
  follow(server: OwnServer): void {
    this.primary = server;
    const moved = (url: string) => Object.assign(new URL(url), { port: String(server.port) }).href;
    this.url = moved(this.url);
    this.ownerUrl = moved(this.ownerUrl);
    for (const path of [this.#path, ...this.served.map(({ instance }) => instance.paths.postgres)])
      path.moveTo(server.port);
    for (const database of this.databases)
      database.moveTo(addressOf(this.ownerUrl, { database: database.name }));
  }

  /** Sets durability: without it, as in other tests, a crash would lose commits of the last seconds. */
  async #setDurability(sql: Sql, isDurable: boolean): Promise<void> {
    if (isDurable) await sql`alter database postgres set synchronous_commit = on`;
    else await sql`alter system set wal_writer_delay = '10s'`;
    await sql`select pg_reload_conf()`;
  }

  async #addRedis(log: (sentence: string) => void): Promise<void> {
    const link = await FaultProxy.before(this.redisUrl);
    const options = () => ['--replicaof', '127.0.0.1', String(link.port), '--repl-diskless-sync-delay', '0'];
    const [own, replica] = await Promise.all([redisOf(log), redisOf(log, options)]);
    this.otherRedis = { own: own.server, replica: replica.server, link };
  }

  async #addReplica(): Promise<void> {
    const link = await FaultProxy.before(this.ownerUrl);
    this.replica = { server: await ownReplica(link.url), link };
  }

  async #allowPrepared(sql: Sql): Promise<void> {
    await sql`alter system set max_prepared_transactions = 10`;
    await this.primary.kill();
    await this.primary.restart();
  }
}

/** Starts a Redis, also outside of vitest. */
async function redisOf(
  log: (sentence: string) => void,
  options?: () => string[],
): ReturnType<typeof ownRedis> {
  const program = await findRedisProgram(log);
  if (!program) throw new Error('No Redis was found: install redis-server or valkey-server');
  return ownRedis(options, program);
}
