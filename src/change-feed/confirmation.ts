import { monotonicMs } from '../lib/clock.ts';
import { MAX_SILENCE_MS } from './listener.ts';

/** A message is at most this old when it is read, or it came in a burst behind a silence. */
const DELAY_MS = 5_000;

/**
 * Knows up to when the change feed has confirmed reads from Redis. Before each message the active invalidator finds in
 * Redis the marker that it wrote last, so Redis had lost nothing before it. A message that is read says little of when
 * it was sent: behind a silence many come at once. Only messages that came without a silence for 5 s confirm what was
 * read before them.
 */
export class Confirmation {
  #receivedAtMs: number;
  #steadySinceMs: number;
  #confirmedMs = -Infinity;

  constructor(nowMs = monotonicMs()) {
    this.#receivedAtMs = nowMs;
    this.#steadySinceMs = nowMs;
  }

  /** What was read from Redis since then is not confirmed. */
  get confirmedMs(): number {
    return this.#confirmedMs;
  }

  /**
   * Notes a message; `isKept`: the invalidator found its marker in Redis. Returns true behind a silence: what is not
   * confirmed must be dropped, for nothing has said meanwhile what Redis lost.
   */
  receive(isKept: boolean, nowMs = monotonicMs()): boolean {
    const wasSilent = nowMs - this.#receivedAtMs > MAX_SILENCE_MS;
    this.#receivedAtMs = nowMs;
    if (wasSilent || !isKept) this.#steadySinceMs = nowMs;
    else if (nowMs - this.#steadySinceMs >= DELAY_MS) this.#confirmedMs = nowMs - DELAY_MS;
    return wasSilent;
  }
}
