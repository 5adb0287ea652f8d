import { compareClocks, monotonicMs, onClockStep, onTick } from '../lib/clock.ts';
import { STOPPED_MS } from '../log/bounds.ts';
import { type LogEvent, LogFollower } from '../log/follower.ts';
import { Window } from '../log/window.ts';
import { openDatabase } from '../postgres/connect.ts';
import type { FollowedLog } from './messages.ts';
import type { ProcessContext } from './process-context.ts';

/**
 * Follows the log for an instance: keeps its window for new workers, and sends all others what happens to the log. `state`
 * returns what a new worker begins with; `applied` is kept up to date. `missedUntil` is to be called with a time, by
 * `monotonicMs`, at which PostgreSQL answered although the log could not be followed: a new worker must not take that for an outage.
 */
export function followLog(context: ProcessContext, pooled: boolean, broadcast: (event: LogEvent) => void) {
  const { config, shutdown, metrics, events } = context;
  const window = new Window();
  const applied: Omit<FollowedLog, 'window'> = {
    ...{ history: '', server: '', position: 0, transaction: '' },
    ...{ secret: new Uint8Array(), asOfMs: undefined, isListing: false },
  };
  const onEvent = (event: LogEvent) => {
    switch (event.type) {
      case 'history': {
        const { type: _, ...start } = event;
        Object.assign(applied, { ...start, asOfMs: undefined });
        window.beginHistory(start.position);
        break;
      }
      case 'restarted':
        applied.server = event.server;
        break;
      case 'news': {
        const { rows, place, asOfMs = applied.asOfMs, isListing } = event.news;
        for (const row of rows) window.apply(row);
        Object.assign(applied, { ...place, asOfMs, isListing });
        metrics.logApplied(applied.position, window.floor, asOfMs);
        break;
      }
      case 'learned':
        for (const row of event.rows) window.apply(row);
        window.lowerFloor(event.floor);
        break;
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
    // a worker may be the first to be heard after a sleep, or a stop of this process
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
