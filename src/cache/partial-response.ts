import type { Found, View } from '../hotels/entry.ts';
import { fillGaps } from '../hotels/json-array.ts';

/** The answer to a batch in which some hotels are still missing: they are loaded, then it is completed. */
export class PartialResponse {
  /** what is missing: distinct, in the order asked */
  readonly keys: readonly string[];
  readonly #hits: Buffer;
  readonly #places: readonly number[];

  /** `hits` is `[body,body,…]`; `places[i]` is the offset at which the body for `keys[i]` and a comma belong. */
  constructor(hits: Buffer, keys: readonly string[], places: readonly number[]) {
    this.#hits = hits;
    this.keys = keys;
    this.#places = places;
  }

  /**
   * The whole array; `found[i]` is what was found for `keys[i]`, undefined or null where there is nothing. It holds
   * until the next answer is assembled.
   */
  complete(found: readonly (Found | undefined)[], view: View): Buffer {
    return fillGaps(this.#hits, this.#places, found, view);
  }
}
