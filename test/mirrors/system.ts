import type { Redis } from 'ioredis';
import type { Sql } from 'postgres';
import { FakeClock } from '../support/fake-clock.ts';
import { insertKey } from '../support/key.ts';
import { databaseAt, type OwnServer, ownPostgres, ownRedis, redisAt } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { pathOf } from '../support/programs.ts';
import { type Service, startService } from '../support/service.ts';

/** Collection of some of the mirrors. */
export const COLLECTION = 'mirrored';

/** Two services under one clock, with a PostgreSQL and a Redis that may be killed. */
export interface System {
  services: Service[];
  postgres: OwnServer;
  redis: OwnServer;
  redisClient: Redis;
  sql: Sql;
  clock: FakeClock;
  /** keys by view: of all hotels with and without the scope, and of the collection */
  keys: Record<View, string>;
}

export type View = 'full' | 'narrow' | 'collection';

/** Returns integers from 0 below a bound. */
export type Random = (below: number) => number;

export async function startSystem(): Promise<System> {
  const own = await ownPostgres(100);
  const redis = await ownRedis();
  const sql = postgresClient(own.ownerUrl, {
    max: 20,
    backoff: () => 0.1,
    connect_timeout: 3,
    connection: { application_name: 'writer' },
  });
  // a killed server loses no commit
  await sql`alter database postgres set synchronous_commit = on`;
  const redisDatabase = redisAt(redis.url);
  const clock = await FakeClock.make((await pathOf('faketime'))!);
  const shared = {
    database: databaseAt(own.url, own.ownerUrl, sql),
    redisDatabase,
    env: clock.env,
  };
  const keys = {
    full: await insertKey(sql, ['registry']),
    narrow: await insertKey(sql, []),
    collection: await insertKey(sql, [], COLLECTION),
  };
  const services = [await startService({ ...shared, workers: 2 }), await startService(shared)];
  return {
    services,
    postgres: own.server,
    redis: redis.server,
    redisClient: redisDatabase.client,
    sql,
    clock,
    keys,
  };
}
