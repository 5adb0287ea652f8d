import { databaseAt, type OwnServer, ownPostgres, ownRedis, redisAt } from './own-server.ts';
import { postgresClient } from './postgres-client.ts';
import { FaultProxy } from './proxy.ts';
import { type Service, type ServiceOptions, startService } from './service.ts';

/** Fault of a server or of the path to it; it lasts until `end` has resolved. */
export interface Fault {
  begin: () => unknown;
  end: () => unknown;
}

/** Server with the path by which services reach it. */
export interface Reached {
  server: OwnServer;
  proxy: FaultProxy;
}

/** Longer than the deadlines of Redis in tests. */
const SLOW_MS = 800;
const nothing = () => {};

/** Returns the faults that any server may have, by their sentences. */
export const faultsOf = ({ server, proxy }: Reached) =>
  ({
    'is frozen': { begin: () => server.freeze(), end: () => server.thaw() },
    'is killed': { begin: () => server.kill(), end: () => server.restart() },
    'responds late': { begin: () => proxy.delay(SLOW_MS), end: () => proxy.heal() },
    'is unreachable: connections stay open and no byte passes': {
      begin: () => proxy.blackout(),
      end: () => proxy.heal(),
    },
    'is behind a proxy that accepts connections and ends them': {
      begin: () => proxy.endEach(),
      end: () => proxy.heal(),
    },
    'has lost the far end of every connection': { begin: () => proxy.halfOpen(), end: nothing },
    'has reset every connection': { begin: () => proxy.reset(), end: nothing },
  }) satisfies Record<string, Fault>;

/** A Redis and a PostgreSQL of the file's own, each behind a proxy, for services that reach them by way of the proxies. */
export type FaultySystem = Awaited<ReturnType<typeof faultySystem>>;

/** Starts the servers; `settings` and `env` are those of PostgreSQL. */
export async function faultySystem(settings: Record<string, string> = {}, env: Record<string, string> = {}) {
  const [ofRedis, ofPostgres] = await Promise.all([ownRedis(), ownPostgres(100, undefined, settings, env)]);
  const [redisProxy, postgresProxy] = await Promise.all(
    [ofRedis, ofPostgres].map(({ url }) => FaultProxy.before(url)),
  );
  const redisDatabase = redisAt(ofRedis.url);
  const { url, ownerUrl } = ofPostgres;
  const sql = postgresClient(ownerUrl, { max: 20, backoff: () => 0.05, connect_timeout: 5 });
  const addresses = { DATABASE_URL: postgresProxy!.url, REDIS_URL: redisProxy!.url };
  return {
    /** `client` and `url` bypass the proxy */
    redis: { ...ofRedis, proxy: redisProxy!, client: redisDatabase.client },
    /** `sql` and `ownerUrl`, of the superuser, and `url`, of the service, bypass the proxy */
    postgres: { ...ofPostgres, proxy: postgresProxy!, sql },
    start: (options: ServiceOptions = {}): Promise<Service> =>
      startService({
        ...{ database: databaseAt(url, ownerUrl, sql), redisDatabase },
        ...options,
        env: { ...addresses, ...options.env },
      }),
  };
}
