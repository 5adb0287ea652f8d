/**
 * Maximum time for which PostgreSQL was available without a message of the change feed. A feed on a dead connection is back
 * within it. Beyond it, cached values may lack changes that clients have seen, and are not used in an outage.
 */
export const MAX_UNHEARD_MS = 4_500;
/**
 * Time after an answer in which PostgreSQL counts as available, if an outage follows. A circuit breaker that opens and closes
 * again and again, while PostgreSQL serves others, would otherwise hide nearly all of the time.
 */
const AVAILABLE_AFTER_ANSWER_MS = 1_000;

/**
 * Measures for how long PostgreSQL was available since the last message of the change feed. Clients may have seen changes of
 * that time which this worker did not receive. Of an outage only its first second counts. Times are those of
 * `performance.now()`.
 */
export class UnheardTime {
  /** time before the last outage; infinite before the first message */
  #earlierMs = Infinity;
  /** the last message, or the end of the last outage if later */
  #sinceMs = Infinity;
  #availableAtMs = -Infinity;
  #inOutage = false;

  /** Records a message of the change feed that was received at this time. */
  heard(atMs: number): void {
    this.#earlierMs = this.#inOutage ? Math.max(0, this.#availableAtMs - atMs) : 0;
    this.#sinceMs = atMs;
  }

  /** Records that PostgreSQL was available at this time. In an outage, it is the late answer of an earlier query. */
  available(atMs: number): void {
    if (!this.#inOutage) this.#availableAtMs = Math.max(this.#availableAtMs, atMs);
  }

  outageBegan(): void {
    this.#earlierMs = this.ms;
    this.#inOutage = true;
  }

  outageEnded(atMs: number): void {
    const knownMs = Math.max(this.#availableAtMs, this.#sinceMs);
    this.#earlierMs += Math.max(0, Math.min(atMs - knownMs, AVAILABLE_AFTER_ANSWER_MS));
    this.#inOutage = false;
    this.#sinceMs = atMs;
    this.#availableAtMs = atMs;
  }

  /** Returns the time in ms until PostgreSQL was last known to be available; Infinity if no message was received. */
  get ms(): number {
    const presentMs = this.#inOutage ? 0 : this.#availableAtMs - this.#sinceMs;
    return this.#earlierMs + Math.max(0, presentMs);
  }
}
