/** Reproducible random numbers (splitmix32). */
export class Draw {
  #state: number;

  /** Takes a pair of whole numbers as start; similar pairs give unrelated numbers. */
  constructor(seed: number, index: number) {
    this.#state = mix(mix(seed) ^ mix(index + 0x9e3779b9));
  }

  /** Returns a whole number from 0 to `bound` - 1. */
  below(bound: number): number {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    return Math.floor((bound * (mix(this.#state) >>> 0)) / 2 ** 32);
  }

  /** Returns a whole number from `minimum` to `maximum`. */
  between(minimum: number, maximum: number): number {
    return minimum + this.below(maximum - minimum + 1);
  }

  chance(percent: number): boolean {
    return this.below(100) < percent;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }
}

function mix(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x21f0aaad);
  bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
  return bits ^ (bits >>> 15);
}
