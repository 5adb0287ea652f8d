/** Weight of a request besides its ids, as bytes of a body that cost as much. */
const REQUEST_BYTES = 512;
/** Usual bytes of a response for a byte of weight: a hotel of 1.1 kB for an id of 13 bytes. */
const USUAL_RATIO = 100;
/** Weight of a new measurement below the estimate. A larger response counts at once. */
const WEIGHT = 0.02;
/** Maximum number of API keys with large responses that are remembered. */
const MAX_OWNERS = 10_000;

/**
 * Weighs batches by the bytes of body that cost as much, from the sizes of the last responses of their API keys. Hotels of 20 kB
 * make a batch weigh like 18 usual ones, so it waits, and uses its key's share, like these.
 */
export class ResponseSizes {
  /** bytes of a response for a byte of weight, of API keys above the usual ratio */
  readonly #ratios = new Map<string, number>();

  weightOf(owner: string, bodyBytes: number): number {
    const ratio = this.#ratios.get(owner);
    const weight = REQUEST_BYTES + bodyBytes;
    return ratio === undefined ? weight : (weight * ratio) / USUAL_RATIO;
  }

  /** Takes the size of the response to a body; 0: there was none. */
  note(owner: string, bodyBytes: number, responseBytes: number): void {
    const before = this.#ratios.get(owner);
    const ratio = responseBytes / (REQUEST_BYTES + bodyBytes);
    // hardly any key has large responses
    if (responseBytes === 0 || (before === undefined && ratio <= USUAL_RATIO)) return;
    const estimate = Math.max(ratio, before === undefined ? 0 : before + WEIGHT * (ratio - before));
    if (this.#ratios.size >= MAX_OWNERS) this.#ratios.clear();
    if (estimate > USUAL_RATIO) this.#ratios.set(owner, estimate);
    else this.#ratios.delete(owner);
  }
}
