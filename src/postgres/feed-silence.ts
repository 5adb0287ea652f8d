/**
 * Maximum silence after which cached values are used in an outage. A feed on a dead connection is back within it. Beyond
 * it, cached values may lack changes that clients have seen.
 */
export const MAX_FEED_SILENCE_MS = 4_500;
/**
 * Time after an answer in which PostgreSQL counts as available, if an outage follows. A circuit breaker that opens and closes
 * again and again, while PostgreSQL serves others, would otherwise hide nearly all of the time.
 */
const AVAILABLE_AFTER_ANSWER_MS = 1_000;

/**
 * Measures the silence of the change feed: for how long PostgreSQL was available since the last message. Clients may have
 * seen changes of that time which this worker did not receive. Of an outage only its first second counts. Times are those
 * of `performance.now()`.
 */
export class FeedSilence {
  /** time for which PostgreSQL was available before `#sinceMs` */
  #earlierMs = 0;
  /** the first answer, or the end of the last outage */
  #sinceMs = Infinity;
  #availableAtMs = -Infinity;
  #inOutage = false;
  /** `availableMs` at the last message */
  #receivedMs = -Infinity;

  /** Records a message of the change feed that was received at this time. */
  received(atMs: number): void {
    if (!this.#inOutage) this.available(atMs);
    // PostgreSQL is unavailable to this process only
    else this.#earlierMs += Math.max(0, Math.min(atMs - this.#availableAtMs, AVAILABLE_AFTER_ANSWER_MS));
    this.#receivedMs = this.availableMs - Math.max(0, this.#availableAtMs - atMs);
    this.#availableAtMs = Math.max(this.#availableAtMs, atMs);
  }

  /** Records that PostgreSQL was available at this time. In an outage, it is the late answer of an earlier query. */
  available(atMs: number): void {
    if (this.#inOutage) return;
    this.#availableAtMs = Math.max(this.#availableAtMs, atMs);
    this.#sinceMs = Math.min(this.#sinceMs, this.#availableAtMs);
  }

  /** Records that this process was stopped between these times. PostgreSQL may have been available, in an outage too. */
  stopped(fromMs: number, toMs: number): void {
    if (this.#inOutage) {
      this.#earlierMs += Math.max(0, toMs - Math.max(fromMs, this.#availableAtMs));
      this.#availableAtMs = Math.max(this.#availableAtMs, toMs);
      return;
    }
    this.available(toMs);
    // the outage ended after the stop, in a callback that ran before this call
    this.#earlierMs += Math.max(0, this.#sinceMs - fromMs);
  }

  /** Records that the machine slept for this long. PostgreSQL may have been available meanwhile. */
  slept(ms: number): void {
    this.#earlierMs += ms;
  }

  outageBegan(): void {
    this.#earlierMs = this.availableMs;
    this.#inOutage = true;
  }

  outageEnded(atMs: number): void {
    this.#earlierMs += Math.max(0, Math.min(atMs - this.#availableAtMs, AVAILABLE_AFTER_ANSWER_MS));
    this.#inOutage = false;
    this.#sinceMs = atMs;
    this.#availableAtMs = atMs;
  }

  /** Returns the time in ms for which PostgreSQL was available since this process began, until it was last known to be. */
  get availableMs(): number {
    return this.#earlierMs + (this.#inOutage ? 0 : Math.max(0, this.#availableAtMs - this.#sinceMs));
  }

  /** Returns the silence in ms until PostgreSQL was last known to be available; Infinity if no message was received. */
  get ms(): number {
    return this.availableMs - this.#receivedMs;
  }
}
