import { randomBytes } from 'node:crypto';

const HALF = 0x7fff;
const ROUNDS = 4;

/**
 * Makes ids for requests without one, unique in this process for 2^30 requests. A counter would show each client the
 * volume of the others, so a Feistel network with random keys permutes it. An id is `start` and a number of 30 bits as six
 * digits of base 32; most ids become a string only if a line about their request is logged.
 */
class NewIds {
  /** first part of each id */
  readonly start = randomBytes(9).toString('base64url');
  readonly #keys = new Int32Array(Uint8Array.from(randomBytes(4 * ROUNDS)).buffer);
  #count = 0;

  next(): number {
    const count = this.#count++;
    let left = count >>> 15;
    let right = count;
    for (let round = 0; round < ROUNDS; round++) {
      const mixed = Math.imul((right & HALF) ^ this.#keys[round]!, 0x9e3779b1);
      [left, right] = [right & HALF, (left ^ (mixed >>> 16) ^ mixed) & HALF];
    }
    return (left << 15) | right;
  }

  text(number: number): string {
    return this.start + number.toString(32).padStart(6, '0');
  }
}

export const newIds = new NewIds();
