import { UsageWriter } from '../auth/usage.ts';
import { compareClocks, onClockStep } from '../lib/clock.ts';
import { type LogEvent, LogFollower } from '../log/follower.ts';
import { Freshness } from '../log/freshness.ts';
import { Window } from '../log/window.ts';
import { openDatabase } from '../postgres/connect.ts';
import { prefixOf } from '../postgres/origin.ts';
import { openRedis, type ProcessContext } from './process-context.ts';
import { type FollowedLog, Workers } from './workers.ts';

/** Margin for the drain of the workers beyond its deadline. */
const DRAIN_MARGIN_MS = 2_000;
/** Margin for the exit of a worker that was killed after it. */
const KILL_MARGIN_MS = 1_000;

/**
 * Follows the log, and starts the workers of an instance as soon as its history is known. Returns undefined if the instance
 * stops before. `pooled`: DATABASE_URL leads through a pooler.
 */
export async function startWorkers(
  context: ProcessContext,
  pooled: boolean,
  isStopping: () => boolean,
): Promise<Workers | undefined> {
  const { config, shutdown, metrics, events } = context;
  let workers: Workers | undefined;
  const log = followLog(context, pooled, (event) => workers?.broadcast(event));
  await log.follower.start();
  if (isStopping()) return undefined;
  const usage = new UsageWriter(
    () => openDatabase(config.DATABASE_URL, 1, { kind: 'usage', pooled }),
    events.usageNotRecorded,
  );
  shutdown.push('use of keys', () => usage.close());
  const redis = config.RATE_LIMIT_SCOPE === 'redis' ? openRedis(context) : undefined;
  const started = new Workers(config.WORKERS, {
    startOf: (number, mayWarmUp) => ({
      type: 'start',
      ...{ number, config, pooled, log: log.state() },
      warmUpMs: mayWarmUp ? config.WARMUP_TIMEOUT_MS : 0,
    }),
    ...{ metrics, events },
    onUsage: (used) => usage.add(used),
    onLateAnswer: (atMs) => log.freshness.answered(atMs),
    countWindow: redis && ((name, use) => redis.countWindow(`${prefixOf(log.applied)}:l:${name}`, use)),
  });
  workers = started;
  const drainMs = config.DRAIN_TIMEOUT_MS + DRAIN_MARGIN_MS;
  shutdown.push('workers', () => started.stop(drainMs), drainMs + KILL_MARGIN_MS);
  return started;
}

/**
 * Follows the log for an instance: knows how far it is followed, keeps its window for new workers, and sends all others what happens
 * to it. `state` returns what a new worker begins with; `applied` is kept up to date.
 */
function followLog(context: ProcessContext, pooled: boolean, broadcast: (event: LogEvent) => void) {
  const { config, shutdown, metrics, events } = context;
  const window = new Window();
  // workers report what PostgreSQL answers
  const freshness = new Freshness(() => false);
  freshness.watchClocks();
  const applied = {
    history: '',
    server: '',
    position: 0,
    transaction: '',
    secret: new Uint8Array(),
    isListing: false,
  };
  const onEvent = (event: LogEvent) => {
    window.follow(event);
    if (event.type === 'history') freshness.lost();
    if (event.type === 'history' || event.type === 'restarted') {
      const { type: _, ...fields } = event;
      Object.assign(applied, fields);
    } else if (event.type === 'news') {
      const { cursor, isListing, asOfMs } = event;
      Object.assign(applied, { ...cursor, isListing });
      if (asOfMs !== undefined) freshness.current(asOfMs);
      metrics.logApplied(applied.position, window.floor, asOfMs);
    }
    broadcast(event);
  };
  const follower = new LogFollower({
    open: () => openDatabase(config.DATABASE_URL, 1, { kind: 'follow', pooled }),
    maxAgeMs: 1000 * config.REDIS_TTL_S,
    ...{ metrics, events, onEvent },
  });
  // the machine has slept: what the connection answers next may be from before
  onClockStep((byMs) => {
    if (byMs > 0) follower.reopen();
  });
  const state = (): FollowedLog => {
    // a worker may be the first to report after a sleep
    compareClocks();
    return { ...applied, asOfMs: freshness.unansweredAsOfMs, window: window.copy() };
  };
  context.onAddressChange('DATABASE_URL', () => follower.reopen());
  shutdown.push('log', () => follower.stop());
  return { follower, applied, freshness, state };
}
