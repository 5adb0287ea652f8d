import type { Found, View } from '../hotels/entry.ts';
import { type Body, fillGaps } from '../hotels/json-array.ts';
import { MAX_OUTPUT_BYTES } from './memory.ts';

/** Response to a batch of which some hotels are still missing. */
export class PartialResponse {
  /** missing keys: distinct, in the requested order */
  readonly keys: readonly string[];
  /** true if the missing hotels may be too large to be read at once */
  readonly isLarge: boolean;
  readonly #hits: Buffer;
  readonly #places: readonly number[];

  /** Takes the array `[body,body,…]`; `places[i]` is the offset in it for the body of `keys[i]` and a comma. */
  constructor(hits: Buffer, keys: readonly string[], places: readonly number[], isLarge = false) {
    this.#hits = hits;
    this.keys = keys;
    this.#places = places;
    this.isLarge = isLarge || hits.length > MAX_OUTPUT_BYTES;
  }

  /** Size of what is not missing. */
  get hitsBytes(): number {
    return this.#hits.length;
  }

  /**
   * Returns the whole array. `found[i]` is the hotel of `keys[i]`, undefined or null if there is none. The bytes are
   * valid until the next response is assembled.
   */
  complete(found: readonly (Found | undefined)[], view: View): Body {
    return fillGaps(this.#hits, this.#places, found, view);
  }
}
