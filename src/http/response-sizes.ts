import { RecentMaximum } from '../lib/recent-maximum.ts';

/** Weight of a request besides its ids, as bytes of a body that cost as much. */
const REQUEST_BYTES = 512;
/** Usual bytes of a response for a byte of weight: a hotel of 1.1 kB for an id of 13 bytes. */
const USUAL_RATIO = 100;

/**
 * Weighs batches by the bytes of body that cost as much, from the sizes of the last responses of their API keys. Hotels of 20 kB
 * make a batch weigh like 18 usual ones, so it waits, and uses its key's share, like these.
 */
export class ResponseSizes {
  /** bytes of a response for a byte of weight */
  readonly #ratios = new RecentMaximum(USUAL_RATIO);

  weightOf(owner: string, bodyBytes: number): number {
    return ((REQUEST_BYTES + bodyBytes) * this.#ratios.get(owner)) / USUAL_RATIO;
  }

  /** Takes the size of the response to a body; 0: there was none. */
  note(owner: string, bodyBytes: number, responseBytes: number): void {
    this.#ratios.note(owner, responseBytes / (REQUEST_BYTES + bodyBytes));
  }
}
