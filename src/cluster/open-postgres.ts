import { replicaUrlsOf } from '../config/connection-addresses.ts';
import type { Dependency } from '../observability/metrics.ts';
import { Postgres } from '../postgres/client.ts';
import { openDatabase } from '../postgres/connect.ts';
import { lockReporter } from '../postgres/lock-report.ts';
import { Origin } from '../postgres/origin.ts';
import type { ProcessContext } from './process-context.ts';

type OriginOptions = ConstructorParameters<typeof Origin>[0];

interface Options extends Pick<OriginOptions, 'applied' | 'mayCompareReplicas' | 'onBehind'> {
  /** true: through a pooler, as `awaitDatabase` found */
  pooled: boolean;
  /** called whenever the primary server has answered, with the time of `monotonicMs`; replicas do not count */
  onAnswer: (atMs: number) => void;
}

/** Connects a worker to PostgreSQL, and to its replicas if there are any. */
export function openPostgres(
  context: ProcessContext,
  { pooled, onAnswer, ...log }: Options,
): { postgres: Postgres; replicas: Postgres[]; origin: Origin } {
  const { config, shutdown, metrics } = context;
  const open = (
    url: () => string,
    dependency: Dependency,
    timeoutMs: number,
    onPrimary: { onAnswer?: Options['onAnswer']; onLocked?: () => void } = {},
  ) => {
    const { DATABASE_POOL_SIZE: connections, DATABASE_QUEUE_LIMIT: queueLimit } = config;
    return new Postgres({
      open: () => openDatabase(url(), connections, { kind: 'serve', deadlineMs: timeoutMs, pooled }),
      ...{ connections, queueLimit, timeoutMs },
      onBreaker: context.onBreaker(dependency),
      onCall: (seconds, succeeded) => metrics.called(dependency, seconds, succeeded),
      ...onPrimary,
    });
  };
  const postgres = open(() => config.DATABASE_URL, 'postgres', config.DATABASE_TIMEOUT_MS, {
    onAnswer,
    onLocked: () => void reportLocks(),
  });
  const reportLocks = lockReporter(postgres, context.events.tableLocked);
  shutdown.push('PostgreSQL', () => postgres.close());
  // a read that a replica did not answer in time goes to the primary
  const timeoutMs = Math.ceil(config.DATABASE_TIMEOUT_MS / 2);
  // adding or removing a replica needs a restart
  const replicas = replicaUrlsOf(config).map((url, i) =>
    open(() => replicaUrlsOf(config)[i] ?? url, 'postgres_replica', timeoutMs),
  );
  shutdown.push('replicas', () => Promise.all(replicas.map((replica) => replica.close())));
  const count: OriginOptions['count'] = (outcome) => metrics.replicaReads.inc({ outcome });
  return { postgres, replicas, origin: new Origin({ primary: postgres, replicas, ...log, count }) };
}
