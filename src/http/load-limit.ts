import { monotonicMs } from '../lib/clock.ts';
import { FIRST_MS_PER_BYTE, QUANTUM_BYTES } from '../lib/event-loop.ts';
import { WaitQueue } from '../lib/wait-queue.ts';

/** Loads that take longer than this from start to response slow each other down. */
const TARGET_LOAD_MS = 30;
/** Limit of bytes of bodies whose batches load at once: 28 KiB are two batches of 1000, or 15 of 100. */
const MIN_LIMIT_BYTES = 28 * 1024;
const FIRST_LIMIT_BYTES = 4 * MIN_LIMIT_BYTES;
const MAX_LIMIT_BYTES = 100 * MIN_LIMIT_BYTES;
const LOWERED_TO = 0.8;

/**
 * Limits the work that loads at once. The limit adapts to the load time (AIMD, as in TCP and in Netflix, "Performance Under
 * Load", 2018): it falls after a load of over 30 ms, and rises slightly after faster ones. The others wait, and their owners
 * take turns.
 */
export class LoadLimit<Item> {
  readonly waiting = new WaitQueue<Item>(FIRST_MS_PER_BYTE, QUANTUM_BYTES);
  /** the next one that waits has a turn of the event loop */
  isContinuing = false;
  #loadingBytes = 0;
  #limitBytes = FIRST_LIMIT_BYTES;
  #loweredAtMs = 0;

  get isIdle(): boolean {
    return this.#loadingBytes === 0 && this.waiting.length === 0;
  }

  get hasRoom(): boolean {
    return this.#loadingBytes < this.#limitBytes;
  }

  /** Counts a load of work of this size that begins. */
  begin(bytes: number): void {
    this.#loadingBytes += bytes;
  }

  /** Ends what was counted. */
  end(bytes: number): void {
    this.#loadingBytes -= bytes;
  }

  /** Adapts the limit to a load that began at this time, and is about to end. */
  adapt(bytes: number, beganMs: number): void {
    const nowMs = monotonicMs();
    if (nowMs - beganMs > TARGET_LOAD_MS) {
      // once for all loads that ran together
      if (beganMs < this.#loweredAtMs) return;
      this.#loweredAtMs = nowMs;
      this.#limitBytes = Math.max(MIN_LIMIT_BYTES, LOWERED_TO * this.#limitBytes);
    } else if (2 * this.#loadingBytes > this.#limitBytes) {
      const raisedBytes = bytes * Math.min(1, bytes / this.#limitBytes);
      this.#limitBytes = Math.min(MAX_LIMIT_BYTES, this.#limitBytes + raisedBytes);
    }
  }
}
