import { replicaUrlsOf } from '../config/connection-addresses.ts';
import type { Dependency } from '../observability/metrics.ts';
import { Postgres } from '../postgres/client.ts';
import { openDatabase } from '../postgres/connect.ts';
import { type FeedPosition, Replica } from '../postgres/replica.ts';
import { Replicas } from '../postgres/replicas.ts';
import type { Base } from './base.ts';

/** PostgreSQL as a worker reads it. */
export interface OpenPostgres {
  postgres: Postgres;
  /** undefined where there are none */
  replicas: Replicas | undefined;
}

/** Connects to PostgreSQL and its replicas. `told`: what was heard last of changes. */
export function openPostgres(base: Base, announced: () => FeedPosition | undefined): OpenPostgres {
  const { config, shutdown, metrics } = base;
  const open = (url: () => string, dependency: Dependency, timeoutMs: number) =>
    new Postgres(
      () =>
        openDatabase(url(), config.DATABASE_POOL_SIZE, {
          kind: 'serve',
          // the server counts too what it waits for this process: the deadline itself is kept here
          statementTimeoutMs: 2 * timeoutMs,
          pooled: config.DATABASE_DIRECT_URL !== '',
        }),
      { connections: config.DATABASE_POOL_SIZE, queueLimit: config.DATABASE_QUEUE_LIMIT, timeoutMs },
      base.onBreaker(dependency),
      (seconds, succeeded) => metrics.called(dependency, seconds, succeeded),
    );
  const postgres = open(() => config.DATABASE_URL, 'postgres', config.DATABASE_TIMEOUT_MS);
  shutdown.push('PostgreSQL', () => postgres.close());
  const urls = replicaUrlsOf(config);
  if (urls.length === 0) return { postgres, replicas: undefined };
  // who waited for one in vain asks the primary afterwards
  const timeoutMs = Math.ceil(config.DATABASE_TIMEOUT_MS / 2);
  const replicas = new Replicas(
    postgres,
    // a replica that is added or taken away needs a restart
    urls.map(
      (url, i) => new Replica(open(() => replicaUrlsOf(config)[i] ?? url, 'postgres_replica', timeoutMs)),
    ),
    announced,
    (outcome) => metrics.replicaRead(outcome),
  );
  shutdown.push('replicas', () => replicas.close());
  return { postgres, replicas };
}
