import { MAX_RESPONSE_BYTES } from '../wasm/constants.ts';
import { Entry, type Found, type View } from './entry.ts';

const COMMA = 0x2c;
const CLOSE = 0x5d;
export const EMPTY_ARRAY = Buffer.from('[]');

/** Shared space for responses: allocating a megabyte for each would keep the garbage collector busy. */
let area = Buffer.allocUnsafe(2 * 1024 * 1024);
/** Size from which a piece of a `LargeBody` ends, behind a whole hotel. What the kernel leaves of it is copied again. */
const JOINED_BYTES = 256 * 1024;

/** Body of a response, in one piece or not. */
export type Body = Uint8Array | LargeBody;

/** Body that is copied together piece by piece as it is read. */
export class LargeBody {
  readonly length: number;
  readonly #parts: readonly (Uint8Array | Entry)[];
  readonly #view: View;
  /** offset of each part */
  readonly #starts: number[] = [];
  /** the part that was read last */
  #last = 0;

  /** Takes bytes, and hotels of which each is followed by a comma, or by the bracket if it is the last part. */
  constructor(parts: readonly (Uint8Array | Entry)[], view: View = 'full') {
    this.#parts = parts;
    this.#view = view;
    let length = 0;
    for (const part of parts) {
      this.#starts.push(length);
      length += part instanceof Entry ? part.bodyLength(view) + 1 : part.length;
    }
    this.length = length;
  }

  /** Returns some bytes from an offset below `length` on. They are valid until the next response is assembled. */
  bytesFrom(offset: number): Uint8Array {
    const starts = this.#starts;
    if (offset < starts[this.#last]!) this.#last = 0;
    while (this.#last + 1 < starts.length && starts[this.#last + 1]! <= offset) this.#last++;
    const first = this.#parts[this.#last]!;
    const skipped = offset - starts[this.#last]!;
    if (!(first instanceof Entry)) return first.subarray(skipped, skipped + JOINED_BYTES);
    let end = 0;
    for (let i = this.#last; i < starts.length && end < JOINED_BYTES; i++) {
      const part = this.#parts[i]!;
      if (!(part instanceof Entry)) break;
      end = part.copyBody(this.#view, area, end);
      area[end++] = i === starts.length - 1 ? CLOSE : COMMA;
    }
    return area.subarray(skipped, end);
  }
}

/** Array of hotels of which some are still missing. */
export class PartialResponse {
  /** missing keys: distinct, in the requested order */
  readonly keys: readonly string[];
  /** true if the missing hotels may be too large to be read at once */
  readonly isLarge: boolean;
  readonly #hits: Buffer;
  readonly #places: readonly number[];

  /** Takes the array `[body,body,…]`, which may be changed; `places[i]` is the offset in it for the body of `keys[i]` and a comma. */
  constructor(hits: Buffer, keys: readonly string[], places: readonly number[], isLarge = false) {
    this.#hits = hits;
    this.keys = keys;
    this.#places = places;
    this.isLarge = isLarge;
  }

  /** Size of what is not missing. */
  get hitsBytes(): number {
    return this.#hits.length;
  }

  /**
   * Returns the whole array. `found[i]` is the hotel of `keys[i]`, undefined or null if there is none. The bytes are valid until
   * the next response is assembled, a `LargeBody` for longer.
   */
  complete(found: readonly (Found | undefined)[], view: View): Body {
    const parts = this.#partsOf(found);
    const body = new LargeBody(parts, view);
    if (body.length > MAX_RESPONSE_BYTES) return body;
    if (body.length >= area.length)
      area = Buffer.allocUnsafe(Math.min(MAX_RESPONSE_BYTES, 2 * body.length) + 1);
    let at = 0;
    for (const part of parts) {
      if (part instanceof Entry) {
        at = part.copyBody(view, area, at);
        area[at++] = COMMA;
      } else {
        area.set(part, at);
        at += part.length;
      }
    }
    // the bracket replaces the last comma; an empty array has none
    if (at === 1) at++;
    area[at - 1] = CLOSE;
    return area.subarray(0, at);
  }

  #partsOf(found: readonly (Found | undefined)[]): (Uint8Array | Entry)[] {
    const hits = this.#hits;
    const parts: (Uint8Array | Entry)[] = [];
    let taken = 0;
    for (const [i, entry] of found.entries()) {
      if (!entry) continue;
      const end = this.#places[i]!;
      if (end > taken) parts.push(hits.subarray(taken, end));
      // a hotel follows the last hit
      if (end === hits.length) hits[end - 1] = COMMA;
      taken = end;
      parts.push(entry);
    }
    const hitsEnd = hits.length > EMPTY_ARRAY.length ? hits.length : 1;
    if (hitsEnd > taken) parts.push(hits.subarray(taken, hitsEnd));
    return parts;
  }
}
