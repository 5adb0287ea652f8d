/** Reproducible random numbers (splitmix32). */
export class Draw {
  #state: number;

  /** Takes a pair of whole numbers as start; similar pairs give unrelated numbers. */
  constructor(seed: number, index: number) {
    this.#state = mix(
      mix(seed | 0) ^ mix((index | 0) + 0x9e3779b9) ^ mix(Math.floor(index / 2 ** 32) + 0x7f4a7c15),
    );
  }

  /** Returns a whole number from 0 to `bound` - 1. */
  below(bound: number): number {
    return Math.floor(this.#next() * bound);
  }

  /** Returns a whole number from `minimum` to `maximum`. */
  between(minimum: number, maximum: number): number {
    return minimum + this.below(maximum - minimum + 1);
  }

  chance(probability: number): boolean {
    return this.#next() < probability;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }

  #next(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    return (mix(this.#state) >>> 0) / 2 ** 32;
  }
}

function mix(value: number): number {
  let bits = value | 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x21f0aaad);
  bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
  return bits ^ (bits >>> 15);
}
