import type { Metrics } from '../observability/metrics.ts';

/** Maximum number of deliveries in flight. Beyond it the oldest are no longer measured. */
const MAX_UNRECEIVED = 1_000;

/**
 * Measures the time from the commit of a change to the receipt of its message, by messages that return to their
 * sender.
 */
export class Lag {
  readonly #metrics: Metrics;
  /** earliest possible commit of the oldest change, by number of the last message */
  readonly #unreceived: { count: number; sinceMs: number }[] = [];

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  /** Records a message before it is sent, because it may be received before the send completes. */
  sent(count: number, sinceMs: number): void {
    this.#unreceived.push({ count, sinceMs });
    if (this.#unreceived.length > MAX_UNRECEIVED) this.#unreceived.shift();
  }

  /** Records that the message with this number has returned: every instance receives it about now. */
  received(count: number): void {
    for (let first = this.#unreceived[0]; first && first.count <= count; first = this.#unreceived[0]) {
      this.#unreceived.shift();
      this.#metrics.freshnessLag.observe((performance.now() - first.sinceMs) / 1000);
    }
  }
}
