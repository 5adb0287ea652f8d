import type { Redis } from 'ioredis';
import type { Sql } from 'postgres';
import type { Reached } from './faults.ts';
import { databaseAt, ownPostgres, ownRedis, redisAt } from './own-server.ts';
import { postgresClient } from './postgres-client.ts';
import { FaultProxy } from './proxy.ts';
import { type Service, type ServiceOptions, startService } from './service.ts';

/** A Redis and a PostgreSQL of the file's own, each behind a proxy, for services that reach them by way of the proxies. */
export interface FaultySystem {
  /** `client` bypasses the proxy */
  redis: Reached & { client: Redis; url: string };
  /** `sql`, of the superuser, and `url`, of the service, bypass the proxy */
  postgres: Reached & { sql: Sql; url: string; ownerUrl: string };
  start: (options?: ServiceOptions) => Promise<Service>;
}

/** Starts the servers; `settings` and `env` are those of PostgreSQL. */
export async function faultySystem(
  settings: Record<string, string> = {},
  env: Record<string, string> = {},
): Promise<FaultySystem> {
  const [ofRedis, ofPostgres] = await Promise.all([ownRedis(), ownPostgres(100, undefined, settings, env)]);
  const [redisProxy, postgresProxy] = await Promise.all(
    [ofRedis, ofPostgres].map(({ url }) => FaultProxy.before(url)),
  );
  const redisDatabase = redisAt(ofRedis.url);
  const { url, ownerUrl } = ofPostgres;
  const sql = postgresClient(ownerUrl, { max: 20, backoff: () => 0.05, connect_timeout: 5 });
  const addresses = { DATABASE_URL: postgresProxy!.url, REDIS_URL: redisProxy!.url };
  return {
    redis: { ...ofRedis, proxy: redisProxy!, client: redisDatabase.client },
    postgres: { ...ofPostgres, proxy: postgresProxy!, sql },
    start: (options = {}) =>
      startService({
        ...{ database: databaseAt(url, ownerUrl, sql), redisDatabase },
        ...options,
        env: { ...addresses, ...options.env },
      }),
  };
}
