import { Prefill } from '../cache/prefill.ts';
import { HotelRepository } from '../hotels/repository.ts';
import { onClockStep } from '../lib/clock.ts';
import { LogFollower } from '../log/follower.ts';
import { raiseWindow } from '../log/raise-window.ts';
import { Window } from '../log/window.ts';
import { Postgres } from '../postgres/client.ts';
import { openDatabase } from '../postgres/connect.ts';
import type { Applied } from '../postgres/label.ts';
import { Origin } from '../postgres/origin.ts';
import { loginOf } from '../redis/store.ts';
import type { LogState, ToWorker } from './messages.ts';
import { openRedis } from './open-redis.ts';
import type { ProcessContext } from './process-context.ts';
import { prefixOf } from './redis-prefix.ts';

/** Minimum timeout of the writes to Redis, which are large and in the background. */
const MIN_REDIS_TIMEOUT_MS = 500;
/** Timeout of a read of changed hotels. */
const PREFILL_TIMEOUT_MS = 2_000;

/**
 * Follows the log for an instance: keeps its window for new workers, sends the others what they need to know of it, and
 * stores changed hotels in Redis. `state` returns what a new worker begins with. Returns no `redis` without Redis.
 */
export function followLog(context: ProcessContext, pooled: boolean, broadcast: (message: ToWorker) => void) {
  const { config, shutdown, metrics, events } = context;
  const window = new Window();
  const applied = { history: '', server: '', position: 0, transaction: '' };
  let secret: Uint8Array = new Uint8Array();
  let asOfMs: number | undefined;
  let isBusy = false;
  const redisCache = openRedis(context, Math.max(config.REDIS_TIMEOUT_MS, MIN_REDIS_TIMEOUT_MS));
  const prefill = redisCache && new Prefill(openRepository(context, pooled, applied), redisCache.hotels);
  const useServer = (server: string) => {
    applied.server = server;
    redisCache?.hotels.usePrefix(prefixOf(applied));
  };
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
      useServer(server);
      const { history, position } = start;
      broadcast({ type: 'history', history, server, position, secret });
    },
    onRestart: (server) => {
      useServer(server);
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
    onSequenced: (rows) => prefill?.changed(rows),
    onReachable: () => broadcast({ type: 'reachable' }),
  });
  // the machine has slept: what the connection answers next may be from before
  onClockStep((byMs) => byMs > 0 && follower.reopen());
  context.onAddressChange((name) => {
    if (name === 'REDIS_URL') redisCache?.redis.useLogin(loginOf(config.REDIS_URL));
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
  return { follower, state, redis: redisCache?.redis, prefix: () => prefixOf(applied) };
}

/** Opens the connection by which the primary process reads changed hotels. */
function openRepository(context: ProcessContext, pooled: boolean, applied: Applied): HotelRepository {
  const { config, shutdown } = context;
  const postgres = new Postgres(
    () =>
      openDatabase(config.DATABASE_URL, 1, {
        kind: 'serve',
        deadlineMs: PREFILL_TIMEOUT_MS,
        pooled,
      }),
    { connections: 1, queueLimit: 1, timeoutMs: PREFILL_TIMEOUT_MS },
    () => {},
  );
  shutdown.push('reads of changed hotels', () => postgres.close());
  context.onAddressChange((name) => {
    if (name === 'DATABASE_URL') postgres.reconnect(1);
  });
  const origin = new Origin({
    primary: postgres,
    replicas: [],
    applied: () => (applied.history === '' ? undefined : applied),
    isCurrent: () => true,
    onBehind: () => {},
    count: () => {},
  });
  return new HotelRepository(origin, () => applied.history);
}
