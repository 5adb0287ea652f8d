import { monotonicMs } from '../lib/clock.ts';
import { MAX_SILENCE_MS } from './listener.ts';

/** Maximum age of a message at its receipt, unless it arrived in a burst after a silence. */
const DELAY_MS = 5_000;

/**
 * Tracks up to when the change feed has confirmed reads from Redis. Before each message the active invalidator finds
 * its last write marker in Redis, so Redis had lost nothing before the message. The time of receipt says little about
 * the time of sending: after a silence many messages arrive at once. Only messages that arrived without a silence for
 * 5 s confirm the reads before them.
 */
export class Confirmation {
  #receivedAtMs: number;
  #steadySinceMs: number;
  /** time since which reads from Redis are not confirmed */
  confirmedMs = -Infinity;

  constructor(nowMs = monotonicMs()) {
    this.#receivedAtMs = nowMs;
    this.#steadySinceMs = nowMs;
  }

  /**
   * Records a message; `isKept`: the invalidator found its marker in Redis. Returns true after a silence: unconfirmed
   * values must then be dropped, because a loss in Redis was not reported meanwhile.
   */
  receive(isKept: boolean, nowMs = monotonicMs()): boolean {
    const wasSilent = nowMs - this.#receivedAtMs > MAX_SILENCE_MS;
    this.#receivedAtMs = nowMs;
    if (wasSilent || !isKept) this.#steadySinceMs = nowMs;
    else if (nowMs - this.#steadySinceMs >= DELAY_MS) this.confirmedMs = nowMs - DELAY_MS;
    return wasSilent;
  }
}
