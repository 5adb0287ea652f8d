import { monotonicMs } from '../lib/clock.ts';
import type { FeedPosition } from '../postgres/replica.ts';
import { MAX_SILENCE_MS } from './listener.ts';

/** Messages come at least every 500 ms; without one for this long, and a query, an answer is not older than a second. */
const FRESH_MS = 900;

/** When a worker last heard of the change feed; every worker judges its link by its own clock. */
export class FeedStatus {
  #receivedAtMs = -Infinity;
  #position: FeedPosition | undefined;

  /** `agoMs`: how long ago the instance heard it. */
  received(position: FeedPosition | undefined, agoMs: number): void {
    this.#receivedAtMs = monotonicMs() - agoMs;
    this.#position = position;
  }

  /** Messages may have been missed: until one is heard, so may the generation be that Redis is in. */
  lost(): void {
    this.#receivedAtMs = -Infinity;
    this.#position = undefined;
  }

  /** What was heard last of changes; undefined when that is not known, or there may be more. */
  get announced(): FeedPosition | undefined {
    return this.up ? this.#position : undefined;
  }

  /** False when changes may have been made that this worker has not heard of. */
  get up(): boolean {
    return this.isUp(monotonicMs());
  }

  /** The same where the time is known already: to look at the clock is dear beside all else that a hit costs. */
  isUp(nowMs: number): boolean {
    return nowMs - this.#receivedAtMs < MAX_SILENCE_MS;
  }

  /** True where every change of a second ago has been heard of, whatever became of the feed since. */
  isFresh(nowMs: number): boolean {
    return nowMs - this.#receivedAtMs < FRESH_MS;
  }
}
