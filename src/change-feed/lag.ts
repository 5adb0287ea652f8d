import type { Metrics } from '../observability/metrics.ts';

/** Deliveries that may be told and not heard yet; past it the oldest are no longer measured. */
const MAX_UNRECEIVED = 1_000;

/** Measures how long a change takes from its commit until it is heard of, by what was told and came back. */
export class Lag {
  readonly #metrics: Metrics;
  /** by their last message, and when the oldest change can have been committed at the earliest */
  readonly #unreceived: { count: number; sinceMs: number }[] = [];

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  /** To be called before the message with this count is sent: it may be heard before we are told that it was. */
  sent(count: number, sinceMs: number): void {
    this.#unreceived.push({ count, sinceMs });
    if (this.#unreceived.length > MAX_UNRECEIVED) this.#unreceived.shift();
  }

  /** The message with this count has come back: every instance hears it about now. */
  received(count: number): void {
    for (let first = this.#unreceived[0]; first && first.count <= count; first = this.#unreceived[0]) {
      this.#unreceived.shift();
      this.#metrics.freshnessLag((performance.now() - first.sinceMs) / 1000);
    }
  }
}
