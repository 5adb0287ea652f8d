import { randomBytes } from 'node:crypto';

/** What may be echoed into a header and a log: no spaces, no quotes, no control characters. */
export const WELL_FORMED = /^[A-Za-z0-9._~+/=:@-]{1,128}$/;

/** 00 to sf, ten bits each: number formatting costs more, and a longer table does not stay in the processor's cache. */
const PAIRS = Array.from({ length: 1024 }, (_, i) => i.toString(36).padStart(2, '0'));
const HALF = 0x7fff;
const ROUNDS = 4;

/** The id that a request brings along, by its header; '' where it has none that may be echoed. */
export function ownId(header: string): string {
  return header !== '' && WELL_FORMED.test(header) ? header : '';
}

/**
 * Ids for requests that bring none along: unique to this process for 2^30 of them and unlikely to be met elsewhere. A counter
 * would tell each client how much the others ask, so a Feistel network with keys of this process permutes it. In two parts, for
 * each is one flat string, which the two joined would not be.
 */
class NewIds {
  /** how each id begins */
  readonly start = randomBytes(9).toString('base64url');
  readonly #keys = new Int32Array(Uint8Array.from(randomBytes(4 * ROUNDS)).buffer);
  #count = 0;

  /** Begins another id: it is `start`, and behind it what is returned. */
  next(): string {
    const count = this.#count++;
    let left = count >>> 15;
    let right = count;
    for (let round = 0; round < ROUNDS; round++) {
      const mixed = Math.imul((right & HALF) ^ this.#keys[round]!, 0x9e3779b1);
      [left, right] = [right & HALF, (left ^ (mixed >>> 16) ^ mixed) & HALF];
    }
    const permuted = (left << 15) | right;
    return PAIRS[permuted >>> 20]! + PAIRS[(permuted >>> 10) & 1023]! + PAIRS[permuted & 1023]!;
  }
}

export const newIds = new NewIds();
