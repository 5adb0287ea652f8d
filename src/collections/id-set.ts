import { type Namespace, numberOf } from '../hotels/namespace.ts';
import { hash, hashKey } from '../wasm/hashes.ts';

const WORDS_PER_SLOT = 2;
const BYTES_PER_SLOT = 4 * WORDS_PER_SLOT;
/** Maximum load: the lookup of a member compares 1.9 consecutive slots, that of another key 4.4. */
const LOAD = 0.65;
const MAX_LOAD = 0.75;
const MIN_SLOTS = 64;

/**
 * Set of hotel ids, channel ids and registry ids that stores a 64-bit hash of each, 13 bytes per key at any length. The seed
 * is random. With a million keys in the set, the probability that it contains any of a million others by mistake is 5e-8.
 */
export class IdSet {
  #slots: number;
  #words: Uint32Array;
  #size = 0;

  /** `expected`: number of keys that it holds without growing. */
  constructor(expected: number) {
    this.#slots = slotsFor(expected);
    this.#words = new Uint32Array(WORDS_PER_SLOT * this.#slots);
  }

  /** Returns the bytes of a set of this many keys. */
  static bytesFor(expected: number): number {
    return BYTES_PER_SLOT * slotsFor(expected);
  }

  get bytes(): number {
    return this.#words.byteLength;
  }

  has(namespace: Namespace, key: string): boolean {
    return hashKey(numberOf(namespace), key) && this.hasHash(hash[0]!, hash[1]!);
  }

  /** The same for a key by both halves of its hash (wasm/assembly/hash.ts), each a u32. */
  hasHash(low: number, high: number): boolean {
    return this.#words[this.#find(low || 1, high)] !== 0;
  }

  /** Adds a key; ignores what is longer than a key. */
  add(namespace: Namespace, key: string): void {
    if (!hashKey(numberOf(namespace), key)) return;
    if (this.#size >= MAX_LOAD * this.#slots) this.#enlarge();
    if (this.#insert(hash[0]! || 1, hash[1]!)) this.#size++;
  }

  delete(namespace: Namespace, key: string): void {
    if (!hashKey(numberOf(namespace), key)) return;
    const words = this.#words;
    let hole = this.#find(hash[0]! || 1, hash[1]!);
    if (words[hole] === 0) return;
    this.#size--;
    // later entries move up, so that no lookup passes an empty slot
    for (let at = this.#next(hole); words[at] !== 0; at = this.#next(at)) {
      const home = this.#homeOf(words[at + 1]!);
      const distance = (from: number) => (from <= at ? at - from : at - from + words.length);
      if (distance(home) < distance(hole)) continue;
      words.copyWithin(hole, at, at + WORDS_PER_SLOT);
      hole = at;
    }
    words.fill(0, hole, hole + WORDS_PER_SLOT);
  }

  /** Returns false if the hash is there already. */
  #insert(low: number, high: number): boolean {
    const at = this.#find(low, high);
    if (this.#words[at] !== 0) return false;
    this.#words[at] = low;
    this.#words[at + 1] = high;
    return true;
  }

  /** Returns the index of the slot with the hash, or of the empty slot where it belongs; `low` 0 means empty. */
  #find(low: number, high: number): number {
    const words = this.#words;
    let at = this.#homeOf(high);
    for (;;) {
      const word = words[at]!;
      if (word === 0 || (word === low && words[at + 1] === high)) return at;
      at = this.#next(at);
    }
  }

  #homeOf(high: number): number {
    return WORDS_PER_SLOT * Math.floor((high / 4_294_967_296) * this.#slots);
  }

  #next(at: number): number {
    return at + WORDS_PER_SLOT < this.#words.length ? at + WORDS_PER_SLOT : 0;
  }

  #enlarge(): void {
    const old = this.#words;
    this.#slots = slotsFor(1.5 * this.#size);
    this.#words = new Uint32Array(WORDS_PER_SLOT * this.#slots);
    for (let from = 0; from < old.length; from += WORDS_PER_SLOT) {
      if (old[from] !== 0) this.#insert(old[from]!, old[from + 1]!);
    }
  }
}

function slotsFor(expected: number): number {
  return Math.max(MIN_SLOTS, Math.ceil(expected / LOAD));
}
