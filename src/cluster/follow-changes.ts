import type { Sql } from 'postgres';
import { Invalidator } from '../change-feed/invalidator.ts';
import { Listener, type ListenerOptions } from '../change-feed/listener.ts';
import { directUrlOf } from '../config/connection-addresses.ts';
import { onClockStep } from '../lib/clock.ts';
import { openDatabase, type Purpose } from '../postgres/connect.ts';
import type { Base } from './base.ts';
import { type OpenRedis, openRedis } from './open-redis.ts';

/** The invalidator's writes are large, and nobody waits for them. */
const LEAST_REDIS_TIMEOUT_MS = 500;

/** An instance's part in telling of changes. */
export interface Following {
  /** to be started */
  invalidator: Invalidator;
  listener: Listener;
  /** undefined where there is none */
  redis: OpenRedis['redis'] | undefined;
}

/** Opens the instance's ear for the change feed, its invalidator, and what these need. `history`: the present one. */
export function followChanges(
  base: Base,
  history: string,
  hear: Pick<ListenerOptions, 'onMessage' | 'onReconnect' | 'onReset' | 'onHistory'>,
): Following {
  const { config, lifecycle, metrics, events } = base;
  const shared = openRedis(base, Math.max(config.REDIS_TIMEOUT_MS, LEAST_REDIS_TIMEOUT_MS));
  const open = (purpose: Purpose): Sql => openDatabase(directUrlOf(config), 1, purpose);
  const invalidator: Invalidator = new Invalidator({
    open: (onClose) => open({ kind: 'invalidate', onClose }),
    redis: shared,
    lastBeat: () => listener.lastBeat,
    lastHeard: () => listener.lastHeard,
    metrics,
    events,
  });
  const listener = new Listener({
    open: () => open({ kind: 'listen' }),
    onRequest: () => invalidator.speak(),
    history,
    secret: base.secret,
    metrics,
    events,
    ...hear,
    onReconnect: () => {
      hear.onReconnect();
      invalidator.doubt();
    },
  });
  // the machine has slept, and none of its clocks but this one went on
  onClockStep((byMs) => byMs > 0 && listener.reopen());
  lifecycle.push('change feed', () => listener.stop());
  lifecycle.push('invalidator', () => invalidator.stop());
  return { invalidator, listener, redis: shared?.redis };
}
