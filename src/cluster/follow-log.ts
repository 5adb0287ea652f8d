import { onClockStep } from '../lib/clock.ts';
import { LogFollower } from '../log/follower.ts';
import { raiseWindow } from '../log/raise-window.ts';
import { Window } from '../log/window.ts';
import { openDatabase } from '../postgres/connect.ts';
import type { LogState, ToWorker } from './messages.ts';
import type { ProcessContext } from './process-context.ts';

/**
 * Follows the log for an instance: keeps its window for new workers, and sends the others what they need to know of it. `state`
 * returns what a new worker begins with.
 */
export function followLog(context: ProcessContext, pooled: boolean, broadcast: (message: ToWorker) => void) {
  const { config, shutdown, metrics, events } = context;
  const window = new Window();
  const applied = { history: '', server: '', position: 0, transaction: '' };
  let secret: Uint8Array = new Uint8Array();
  let asOfMs: number | undefined;
  let isBusy = false;
  const follower = new LogFollower({
    open: () => openDatabase(config.DATABASE_URL, 1, { kind: 'follow', pooled }),
    maxAgeMs: 1000 * config.REDIS_TTL_S,
    metrics,
    events,
    onHistory: (start, server) => {
      applied.history = start.history;
      applied.position = start.position;
      applied.transaction = start.transaction;
      asOfMs = undefined;
      secret = start.secret;
      context.secret.use(secret);
      window.beginHistory(start.position);
      applied.server = server;
      const { history, position } = start;
      broadcast({ type: 'history', history, server, position, secret });
    },
    onRestart: (server) => {
      applied.server = server;
      broadcast({ type: 'restarted', server });
    },
    onNews: (news) => {
      for (const row of news.rows) raiseWindow(window, row);
      Object.assign(applied, news.place);
      asOfMs = news.asOfMs ?? asOfMs;
      isBusy = news.isBusy;
      metrics.logApplied(applied.position, window.floor, asOfMs);
      broadcast({ type: 'log', news });
    },
    onLearned: (rows, floor) => {
      for (const row of rows) raiseWindow(window, row);
      window.lowerFloor(floor);
      broadcast({ type: 'learned', rows, floor });
    },
    onReachable: () => broadcast({ type: 'reachable' }),
  });
  // the machine has slept: what the connection answers next may be from before
  onClockStep((byMs) => byMs > 0 && follower.reopen());
  context.onAddressChange((name) => {
    if (name === 'DATABASE_URL') follower.reopen();
  });
  shutdown.push('log', () => follower.stop());
  const state = (): LogState => ({
    ...applied,
    secret,
    asOfMs,
    isBusy,
    window: window.copy(),
  });
  return { follower, state, applied };
}
