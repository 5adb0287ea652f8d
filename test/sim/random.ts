/** Random numbers that depend on a seed alone (sfc32). Each user has a stream of its own, so that one step fewer moves no other. */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: string) {
    // FNV-1a over the text, with three offsets
    const [a, b, c] = [0x811c9dc5, 0x9e3779b9, 0x85ebca6b].map((start) => {
      let hash = start;
      for (let i = 0; i < seed.length; i++) hash = Math.imul(hash ^ seed.charCodeAt(i), 0x01000193);
      return hash | 0;
    }) as [number, number, number];
    this.#a = a;
    this.#b = b;
    this.#c = c;
    for (let i = 0; i < 12; i++) this.next();
  }

  /** Returns a number from 0 to below 1. */
  next(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    return (sum >>> 0) / 4_294_967_296;
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.next();
  }

  /** Returns an integer from `low` to `high`, both included. */
  whole(low: number, high: number): number {
    return low + Math.floor((high - low + 1) * this.next());
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.next() * items.length)]!;
  }
}
