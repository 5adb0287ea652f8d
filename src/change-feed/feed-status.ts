import { monotonicMs } from '../lib/clock.ts';
import type { FeedSilence } from '../postgres/feed-silence.ts';
import type { FeedPosition } from '../postgres/replica.ts';
import { MAX_SILENCE_MS } from './listener.ts';

/**
 * Messages arrive at least every 500 ms. This bound on a silence, plus a query, keeps responses within one second.
 */
const FRESH_MS = 900;

/** Tracks when a worker last received a message. Every worker uses its own clock. */
export class FeedStatus {
  #receivedAtMs = -Infinity;
  #position: FeedPosition | undefined;
  readonly #feedSilence: FeedSilence;

  constructor(feedSilence: FeedSilence) {
    this.#feedSilence = feedSilence;
  }

  /** `atMs`: time at which the instance received the message, by `monotonicMs` of this process. */
  received(position: FeedPosition | undefined, atMs: number): void {
    this.#receivedAtMs = atMs;
    this.#feedSilence.received(atMs);
    this.#position = position;
  }

  /** Records that messages may have been missed. Until the next message, the generation of Redis is unknown too. */
  lost(): void {
    this.#receivedAtMs = -Infinity;
    this.#position = undefined;
  }

  /** Returns the position of the last message; undefined if it is unknown or there may be later ones. */
  get announced(): FeedPosition | undefined {
    return this.up ? this.#position : undefined;
  }

  /** Returns false if this worker may have missed changes. */
  get up(): boolean {
    return this.isUp(monotonicMs());
  }

  /** Returns the same for a given time. Reading the clock is expensive compared with a cache hit. */
  isUp(nowMs: number): boolean {
    return nowMs - this.#receivedAtMs < MAX_SILENCE_MS;
  }

  /** Returns true if every change older than a second has been received. */
  isFresh(nowMs: number): boolean {
    return nowMs - this.#receivedAtMs < FRESH_MS;
  }
}
