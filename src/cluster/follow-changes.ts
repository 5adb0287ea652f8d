import type { Sql } from 'postgres';
import type { HistoryPosition } from '../change-feed/history.ts';
import { Invalidator } from '../change-feed/invalidator.ts';
import { Listener, type ListenerOptions } from '../change-feed/listener.ts';
import { directUrlOf } from '../config/connection-addresses.ts';
import { onClockStep } from '../lib/clock.ts';
import { openDatabase, type Purpose } from '../postgres/connect.ts';
import { loginOf } from '../redis/store.ts';
import { openRedis } from './open-redis.ts';
import type { ProcessContext } from './process-context.ts';

/** Minimum timeout of the invalidator's writes, which are large and in the background. */
const MIN_REDIS_TIMEOUT_MS = 500;

/**
 * Opens the change feed and the invalidator of an instance with their connections. `start`: the present position. The
 * invalidator is still to be started. Returns no `redis` without Redis.
 */
export function followChanges(
  context: ProcessContext,
  start: HistoryPosition,
  receive: Pick<ListenerOptions, 'onMessage' | 'onReconnect' | 'onReset' | 'onHistory'>,
) {
  const { config, shutdown, metrics, events } = context;
  const redisCache = openRedis(context, Math.max(config.REDIS_TIMEOUT_MS, MIN_REDIS_TIMEOUT_MS));
  const open = (purpose: Purpose): Sql => openDatabase(directUrlOf(config), 1, purpose);
  const invalidator: Invalidator = new Invalidator({
    open: (onClose) => open({ kind: 'invalidate', onClose }),
    redis: redisCache,
    lastMarker: () => listener.lastMarker,
    lastReceived: () => listener.lastReceived,
    metrics,
    events,
  });
  const listener = new Listener({
    open: () => open({ kind: 'listen' }),
    onRequest: () => invalidator.sendHeartbeat(),
    start,
    secret: context.secret,
    metrics,
    events,
    ...receive,
    onReconnect: () => {
      receive.onReconnect();
      invalidator.suspect();
    },
  });
  // the machine has slept, and only this clock has advanced
  onClockStep((byMs) => byMs > 0 && listener.reopen());
  context.onAddressChange((name) => {
    if (name === 'REDIS_URL') redisCache?.redis.useLogin(loginOf(config.REDIS_URL));
    else if (directUrlOf(config) === config[name]) {
      listener.reopen();
      invalidator.renew();
    }
  });
  shutdown.push('change feed', () => listener.stop());
  shutdown.push('invalidator', () => invalidator.stop());
  return { invalidator, listener, redis: redisCache?.redis };
}
