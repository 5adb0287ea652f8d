import type { Entry, View } from '../entry.ts';

const COMMA = 0x2c;
const BRACKET = 0x5d;

/** The answer to a batch in which some hotels are still missing: they are loaded, then it is completed. */
export class GappedAnswer {
  /** what is missing: distinct, in the order asked */
  readonly keys: readonly string[];
  readonly #hits: Buffer;
  readonly #places: readonly number[];
  readonly #area: Buffer;

  /**
   * `hits` is `[body,body,…]`; `places[i]` is the offset at which the body for `keys[i]` and a comma belong.
   * `area` is the slab's output, where answers are assembled that are not too large for it.
   */
  constructor(hits: Buffer, keys: readonly string[], places: readonly number[], area: Buffer) {
    this.#hits = hits;
    this.keys = keys;
    this.#places = places;
    this.#area = area;
  }

  /**
   * The whole array; `entries[i]` is what was found for `keys[i]`, undefined where there is nothing. Like the slab's
   * `output` it holds until the next call of the slab: 1000 hotels of 990 bytes are 48 µs into that memory,
   * 118 µs into a new Buffer, whose pages the kernel has to provide first.
   */
  complete(entries: readonly (Entry | null | undefined)[], view: View): Buffer {
    const hits = this.#hits;
    let length = hits.length;
    for (const entry of entries) if (entry) length += entry.bodyLength(view) + 1;
    const answer = length <= this.#area.length ? this.#area : Buffer.allocUnsafe(length);
    const hasHits = hits.length > 2;
    // With a comma behind every body, all pieces are alike; at last the bracket takes the place of one.
    const hitsEnd = hasHits ? hits.length : 1;
    let at = 0;
    let taken = 0;
    const takeHits = (end: number) => {
      at += hits.copy(answer, at, taken, end);
      taken = end;
      if (end === hits.length) answer[at - 1] = COMMA;
    };
    for (const [i, entry] of entries.entries()) {
      if (!entry) continue;
      takeHits(this.#places[i]!);
      at = entry.copyBody(view, answer, at);
      answer[at++] = COMMA;
    }
    takeHits(hitsEnd);
    if (at === 1) at++;
    answer[at - 1] = BRACKET;
    return answer.subarray(0, at);
  }
}
