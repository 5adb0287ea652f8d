import type { Found, View } from '../hotels/entry.ts';
import { fillGaps } from '../hotels/json-array.ts';

/** Response to a batch of which some hotels are still missing. */
export class PartialResponse {
  /** missing keys: distinct, in the requested order */
  readonly keys: readonly string[];
  readonly #hits: Buffer;
  readonly #places: readonly number[];

  /** Takes the array `[body,body,…]`; `places[i]` is the offset in it for the body of `keys[i]` and a comma. */
  constructor(hits: Buffer, keys: readonly string[], places: readonly number[]) {
    this.#hits = hits;
    this.keys = keys;
    this.#places = places;
  }

  /**
   * Returns the whole array. `found[i]` is the hotel of `keys[i]`, undefined or null if there is none. The bytes are
   * valid until the next response is assembled.
   */
  complete(found: readonly (Found | undefined)[], view: View): Buffer {
    return fillGaps(this.#hits, this.#places, found, view);
  }
}
