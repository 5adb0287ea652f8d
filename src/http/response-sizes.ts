import { monotonicMs } from '../lib/clock.ts';

/** Weight of a request besides its ids, as bytes of a body that cost as much. */
const REQUEST_BYTES = 512;
/** Usual bytes of a response for a byte of weight: a hotel of 1.1 kB for an id of 13 bytes. */
const USUAL_RATIO = 100;
/** Time in which an estimate halves: by time alone, so no small responses can make it forget large ones. */
const HALVED_MS = 20_000;
/** Maximum number of API keys with large responses that are remembered. */
const MAX_OWNERS = 10_000;

/**
 * Weighs batches by the bytes of body that cost as much, from the sizes of the last responses of their API keys. Hotels of 20 kB
 * make a batch weigh like 18 usual ones, so it waits, and uses its key's share, like these.
 */
export class ResponseSizes {
  /** bytes of a response for a byte of weight, of API keys above the usual ratio, with the time of the estimate */
  readonly #ratios = new Map<string, [ratio: number, atMs: number]>();

  weightOf(owner: string, bodyBytes: number): number {
    return ((REQUEST_BYTES + bodyBytes) * this.#ratioOf(owner)) / USUAL_RATIO;
  }

  /** Takes the size of the response to a body; 0: there was none. */
  note(owner: string, bodyBytes: number, responseBytes: number): void {
    const ratio = responseBytes / (REQUEST_BYTES + bodyBytes);
    // hardly any key has large responses
    if (!(ratio > this.#ratioOf(owner))) return;
    if (this.#ratios.size >= MAX_OWNERS) this.#ratios.clear();
    this.#ratios.set(owner, [ratio, monotonicMs()]);
  }

  #ratioOf(owner: string): number {
    const known = this.#ratios.get(owner);
    if (!known) return USUAL_RATIO;
    return Math.max(USUAL_RATIO, known[0] / 2 ** ((monotonicMs() - known[1]) / HALVED_MS));
  }
}
