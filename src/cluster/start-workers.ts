import { UsageWriter } from '../auth/usage.ts';
import { openDatabase } from '../postgres/connect.ts';
import { prefixOf } from '../postgres/label.ts';
import { followLog } from './follow-log.ts';
import { openRedis } from './open-redis.ts';
import type { ProcessContext } from './process-context.ts';
import { Workers } from './workers.ts';

/** Margin for the drain of the workers beyond its deadline. */
const DRAIN_MARGIN_MS = 2_000;
/** Margin for the exit of a worker that was killed after it. */
const KILL_MARGIN_MS = 1_000;

/**
 * Follows the log, and starts the workers of an instance as soon as its history is known. Returns undefined if the instance
 * stops before.
 */
export async function startWorkers(
  context: ProcessContext,
  pooled: boolean,
  isStopping: () => boolean,
): Promise<Workers | undefined> {
  const { config, shutdown, metrics, events } = context;
  let workers: Workers | undefined;
  const log = followLog(context, pooled, (message) => workers?.broadcast(message));
  await log.follower.start();
  if (isStopping()) return undefined;
  const usage = new UsageWriter(
    () => openDatabase(config.DATABASE_URL, 1, { kind: 'usage', pooled }),
    events.usageNotRecorded,
  );
  shutdown.push('use of keys', () => usage.close());
  const prefix = () => prefixOf(log.applied);
  const redis = config.RATE_LIMIT_SCOPE === 'redis' ? openRedis(context) : undefined;
  const started = new Workers(config.WORKERS, {
    startOf: (number, mayWarmUp) => ({
      type: 'start',
      ...{ number, config, pooled },
      warmUpMs: mayWarmUp ? config.WARMUP_TIMEOUT_MS : 0,
      log: log.state(),
    }),
    ...{ metrics, events },
    onUsage: (used) => usage.add(used),
    onLateAnswer: log.missedUntil,
    countWindow: redis && ((name, use) => redis.countWindow(`${prefix()}:l:${name}`, use)),
  });
  workers = started;
  const drainMs = config.DRAIN_TIMEOUT_MS + DRAIN_MARGIN_MS;
  shutdown.push('workers', () => started.stop(drainMs), drainMs + KILL_MARGIN_MS);
  return started;
}
