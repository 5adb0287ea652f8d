import { replicaUrlsOf } from '../config/connection-addresses.ts';
import type { Dependency } from '../observability/metrics.ts';
import { Postgres } from '../postgres/client.ts';
import { openDatabase } from '../postgres/connect.ts';
import type { FeedSilence } from '../postgres/feed-silence.ts';
import { type FeedPosition, Replica } from '../postgres/replica.ts';
import { Replicas } from '../postgres/replicas.ts';
import type { ProcessContext } from './process-context.ts';

/**
 * Connects a worker to PostgreSQL and its replicas, if there are any. `announced`: returns the last received position.
 * `feedSilence` records when the primary server is available; replicas do not count.
 */
export function openPostgres(
  context: ProcessContext,
  announced: () => FeedPosition | undefined,
  feedSilence: FeedSilence,
) {
  const { config, shutdown, metrics } = context;
  const open = (url: () => string, dependency: Dependency, timeoutMs: number, silence?: FeedSilence) =>
    new Postgres(
      () =>
        openDatabase(url(), config.DATABASE_POOL_SIZE, {
          kind: 'serve',
          // the server counts time that this process causes too; the deadline itself is kept here
          statementTimeoutMs: 2 * timeoutMs,
          pooled: config.DATABASE_DIRECT_URL !== '',
        }),
      { connections: config.DATABASE_POOL_SIZE, queueLimit: config.DATABASE_QUEUE_LIMIT, timeoutMs },
      context.onBreaker(dependency),
      (seconds, succeeded) => metrics.called(dependency, seconds, succeeded),
      silence,
    );
  const postgres = open(() => config.DATABASE_URL, 'postgres', config.DATABASE_TIMEOUT_MS, feedSilence);
  shutdown.push('PostgreSQL', () => postgres.close());
  const urls = replicaUrlsOf(config);
  if (urls.length === 0) return { postgres, replicas: undefined };
  // a read that a replica did not answer in time goes to the primary
  const timeoutMs = Math.ceil(config.DATABASE_TIMEOUT_MS / 2);
  const replicas = new Replicas(
    postgres,
    // adding or removing a replica needs a restart
    urls.map(
      (url, i) => new Replica(open(() => replicaUrlsOf(config)[i] ?? url, 'postgres_replica', timeoutMs)),
    ),
    announced,
    (outcome) => metrics.replicaReads.inc({ outcome }),
  );
  shutdown.push('replicas', () => replicas.close());
  return { postgres, replicas };
}
