import { UsageWriter } from '../auth/usage.ts';
import { compareClocks, monotonicMs, onClockStep, onTick } from '../lib/clock.ts';
import { STOPPED_MS } from '../log/bounds.ts';
import { type LogEvent, LogFollower } from '../log/follower.ts';
import { Window } from '../log/window.ts';
import { openDatabase } from '../postgres/connect.ts';
import { prefixOf } from '../postgres/label.ts';
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
    onLateAnswer: log.missedUntil,
    countWindow: redis && ((name, use) => redis.countWindow(`${prefixOf(log.applied)}:l:${name}`, use)),
  });
  workers = started;
  const drainMs = config.DRAIN_TIMEOUT_MS + DRAIN_MARGIN_MS;
  shutdown.push('workers', () => started.stop(drainMs), drainMs + KILL_MARGIN_MS);
  return started;
}

/**
 * Follows the log for an instance: keeps its window for new workers, and sends all others what happens to the log. `state`
 * returns what a new worker begins with; `applied` is kept up to date. `missedUntil` is to be called with a time, by
 * `monotonicMs`, at which PostgreSQL answered although the log could not be followed: a new worker must not take that for an outage.
 */
function followLog(context: ProcessContext, pooled: boolean, broadcast: (event: LogEvent) => void) {
  const { config, shutdown, metrics, events } = context;
  const window = new Window();
  const applied: Omit<FollowedLog, 'window'> = {
    ...{ history: '', server: '', position: 0, transaction: '' },
    ...{ secret: new Uint8Array(), asOfMs: undefined, isListing: false },
  };
  const onEvent = (event: LogEvent) => {
    window.follow(event);
    const { type, ...fields } = event;
    if (type === 'history') Object.assign(applied, { ...fields, asOfMs: undefined });
    else if (type === 'restarted') Object.assign(applied, fields);
    else if (type === 'news') {
      const { place, asOfMs = applied.asOfMs, isListing } = event;
      Object.assign(applied, { ...place, asOfMs, isListing });
      metrics.logApplied(applied.position, window.floor, asOfMs);
    }
    broadcast(event);
  };
  const follower = new LogFollower({
    open: () => openDatabase(config.DATABASE_URL, 1, { kind: 'follow', pooled }),
    maxAgeMs: 1000 * config.REDIS_TTL_S,
    ...{ metrics, events, onEvent },
  });
  let missedUntilMs = -Infinity;
  const missedUntil = (atMs: number) => {
    missedUntilMs = Math.max(missedUntilMs, atMs);
  };
  onClockStep((byMs, sleptMs) => {
    // the machine has slept: what the connection answers next may be from before
    if (byMs > 0) follower.reopen();
    if (sleptMs > 0) missedUntil(monotonicMs());
  });
  let seenAtMs = monotonicMs();
  const look = () => {
    const nowMs = monotonicMs();
    if (nowMs - seenAtMs > STOPPED_MS) missedUntil(nowMs);
    seenAtMs = nowMs;
  };
  onTick(look);
  const state = (): FollowedLog => {
    // a worker may be the first to report after a sleep, or a stop of this process
    compareClocks();
    look();
    const { asOfMs = -Infinity } = applied;
    return {
      ...applied,
      asOfMs: asOfMs < missedUntilMs ? undefined : applied.asOfMs,
      window: window.copy(),
    };
  };
  context.onAddressChange('DATABASE_URL', () => follower.reopen());
  shutdown.push('log', () => follower.stop());
  return { follower, applied, missedUntil, state };
}
