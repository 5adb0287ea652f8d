import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import postgres, { type Sql } from 'postgres';
import { inject } from 'vitest';
import { closeAtEnd, fault, untilGone } from './cleanup.ts';
import { addressOf } from './postgres-client.ts';
import { redisClient } from './redis-use.ts';

/** Migrated database of one test file. */
export interface FreshDatabase {
  name: string;
  /** address for the service: a login that is only a member of hotel_api_serve */
  url: string;
  /** address for the superuser */
  ownerUrl: string;
  /** connection of the superuser */
  sql: Sql;
  /** closes `sql`, reports connections left open, drops the database; also called at the end of the file */
  drop(): Promise<void>;
}

/** Empty Redis database number of one test file. */
export interface FreshRedis {
  url: string;
  client: Redis;
  /** reports connections left open, empties and returns the number; also called at the end of the file */
  release(): Promise<void>;
}

const HARNESS = 'test harness';

/** Creates a database; `template` replaces the migrated one, and must have no connections. */
export async function freshDatabase(template = inject('servers').template): Promise<FreshDatabase> {
  const { ownerUrl, serviceUrl } = inject('servers');
  const name = `test_${randomBytes(6).toString('hex')}`;
  await asAdmin((admin) => admin`create database ${admin(name)} template ${admin(template)}`);
  const sql = connect(ownerUrl + name, 4);
  const drop = once(async () => {
    await sql.end();
    await asAdmin(async (admin) => {
      const left = await untilGone(
        () => admin<{ application_name: string; query: string }[]>`
          select application_name, query from pg_stat_activity
          where datname = ${name} and backend_type = 'client backend'`,
      );
      for (const { application_name, query } of left)
        fault(`a connection to PostgreSQL: ${application_name}, last query: ${query.slice(0, 200)}`);
      await admin`drop database ${admin(name)} with (force)`;
    });
  });
  closeAtEnd(`database ${name}`, drop);
  return { name, url: serviceUrl + name, ownerUrl: ownerUrl + name, sql, drop };
}

export async function freshRedis(): Promise<FreshRedis> {
  const { redisUrl } = inject('servers');
  if (!redisUrl) throw new Error("this file uses Redis: it lacks needs('redis')");
  const { client, lock } = await claimNumber(redisUrl);
  const url = addressOf(redisUrl, { database: String(client.options.db!) });
  const release = once(async () => {
    const ownId = await client.client('ID');
    const left = await untilGone(async () => {
      const connections = String(await client.client('LIST'))
        .trim()
        .split('\n');
      return connections.filter(
        (line) => line.includes(` db=${client.options.db} `) && !line.startsWith(`id=${ownId} `),
      );
    });
    for (const line of left) fault(`a connection to Redis: ${line}`);
    await client.flushdb();
    await client.select(0);
    await client.del(lock);
    client.disconnect();
  });
  closeAtEnd(`Redis database ${client.options.db}`, release);
  return { url, client, release };
}

/** Claims an empty number that no other test file uses; locks are in number 0. */
async function claimNumber(redisUrl: string): Promise<{ client: Redis; lock: string }> {
  const locks = connectRedis(redisUrl, 0);
  try {
    const [, databases] = (await locks.config('GET', 'databases')) as string[];
    for (let db = 1; db < Number(databases); db++) {
      const lock = `hotel-api-test:claimed:${db}`;
      if (!(await locks.set(lock, process.pid, 'EX', 3_600, 'NX'))) continue;
      const client = connectRedis(redisUrl, db);
      if ((await client.dbsize()) === 0) return { client, lock };
      client.disconnect();
      await locks.del(lock);
    }
    throw new Error('every database number of Redis is in use');
  } finally {
    locks.disconnect();
  }
}

const connectRedis = (url: string, db: number): Redis =>
  redisClient(addressOf(url, { database: String(db) }), { maxRetriesPerRequest: 3 });

function connect(url: string, max: number): Sql {
  return postgres(url, { max, onnotice: () => {}, connection: { application_name: HARNESS } });
}

async function asAdmin(work: (admin: Sql) => Promise<unknown>): Promise<void> {
  const admin = connect(`${inject('servers').ownerUrl}postgres`, 1);
  try {
    await work(admin);
  } finally {
    await admin.end();
  }
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}
