import { randomBytes } from 'node:crypto';

const WORDS_PER_SLOT = 3;
const BYTES_PER_SLOT = 4 * WORDS_PER_SLOT;
/** Maximum load: the lookup of a missing id compares 13 consecutive slots, 0.2 µs. */
const LOAD = 0.8;
const MAX_LOAD = 0.9;
const MIN_SLOTS = 64;
/** Maximum length of an id in UTF-8: 255 characters. */
const MAX_ID_BYTES = 1020;

const scratch = Buffer.alloc(MAX_ID_BYTES);
/** The hash of the last id as three words. */
const hash = new Uint32Array(WORDS_PER_SLOT);
const seeds = randomBytes(16);
const [SEED_0, SEED_1, SEED_2, SEED_3] = [0, 4, 8, 12].map((at) => seeds.readInt32LE(at)) as [
  number,
  number,
  number,
  number,
];

/**
 * Set of ids in 15 bytes per id, whatever their length: 96 bits of a hash with a random seed each. The probability
 * that any of a million ids outside is taken for one of a million inside is 1e-17.
 */
export class IdSet {
  #slots: number;
  #words: Uint32Array;
  #size = 0;

  /** `expected`: number of ids that it holds without growing. */
  constructor(expected: number) {
    this.#slots = slotsFor(expected);
    this.#words = new Uint32Array(WORDS_PER_SLOT * this.#slots);
  }

  /** Returns the bytes of a set of this many ids. */
  static bytesFor(expected: number): number {
    return BYTES_PER_SLOT * slotsFor(expected);
  }

  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return this.#words.byteLength;
  }

  has(id: string): boolean {
    const length = write(id);
    return length > 0 && this.hasBytes(scratch, 0, length);
  }

  /** The same for an id in UTF-8 at an offset of `bytes`. */
  hasBytes(bytes: Uint8Array, start: number, end: number): boolean {
    hashBytes(bytes, start, end);
    return this.#words[this.#find()] !== 0;
  }

  add(id: string): void {
    const length = write(id);
    if (length === 0) return;
    if (this.#size >= MAX_LOAD * this.#slots) this.#enlarge();
    hashBytes(scratch, 0, length);
    const at = this.#find();
    if (this.#words[at] !== 0) return;
    this.#words.set(hash, at);
    this.#size++;
  }

  delete(id: string): void {
    const length = write(id);
    if (length === 0) return;
    hashBytes(scratch, 0, length);
    const words = this.#words;
    let hole = this.#find();
    if (words[hole] === 0) return;
    this.#size--;
    // later entries move up, so that no lookup passes an empty slot
    for (let at = this.#next(hole); words[at] !== 0; at = this.#next(at)) {
      const home = this.#homeOf(words[at]!);
      const distance = (from: number) => (from <= at ? at - from : at - from + words.length);
      if (distance(home) < distance(hole)) continue;
      words.copyWithin(hole, at, at + WORDS_PER_SLOT);
      hole = at;
    }
    words.fill(0, hole, hole + WORDS_PER_SLOT);
  }

  /** Returns the index of the slot with the hash, or of the empty slot where it belongs. */
  #find(): number {
    const words = this.#words;
    const first = hash[0]!;
    const second = hash[1]!;
    const third = hash[2]!;
    let at = this.#homeOf(first);
    while (words[at] !== 0) {
      if (words[at] === first && words[at + 1] === second && words[at + 2] === third) return at;
      at = this.#next(at);
    }
    return at;
  }

  #homeOf(first: number): number {
    return WORDS_PER_SLOT * Math.floor((first / 4_294_967_296) * this.#slots);
  }

  #next(at: number): number {
    return at + WORDS_PER_SLOT < this.#words.length ? at + WORDS_PER_SLOT : 0;
  }

  #enlarge(): void {
    const old = this.#words;
    this.#slots = slotsFor(1.5 * this.#size);
    this.#words = new Uint32Array(WORDS_PER_SLOT * this.#slots);
    for (let from = 0; from < old.length; from += WORDS_PER_SLOT) {
      if (old[from] === 0) continue;
      hash.set(old.subarray(from, from + WORDS_PER_SLOT));
      this.#words.set(hash, this.#find());
    }
  }
}

function slotsFor(expected: number): number {
  return Math.max(MIN_SLOTS, Math.ceil(expected / LOAD));
}

/** Writes an id to `scratch`; returns its length in bytes, 0 if it is longer than any id. */
function write(id: string): number {
  const { length } = id;
  if (length > MAX_ID_BYTES) return 0;
  for (let i = 0; i < length; i++) {
    const code = id.charCodeAt(i);
    if (code > 0x7f) {
      const { read, written } = encoder.encodeInto(id, scratch);
      return read === length ? written : 0;
    }
    scratch[i] = code;
  }
  return length;
}

const encoder = new TextEncoder();

/** Computes MurmurHash3 x86-128 and keeps 96 bits in `hash`; the first word is never 0, which means empty. */
function hashBytes(bytes: Uint8Array, start: number, end: number): void {
  let h1 = SEED_0;
  let h2 = SEED_1;
  let h3 = SEED_2;
  let h4 = SEED_3;
  let at = start;
  for (; at + 16 <= end; at += 16) {
    h1 ^= Math.imul(rotate(Math.imul(wordAt(bytes, at), C1), 15), C2);
    h1 = (Math.imul(rotate(h1, 19) + h2, 5) + 0x561ccd1b) | 0;
    h2 ^= Math.imul(rotate(Math.imul(wordAt(bytes, at + 4), C2), 16), C3);
    h2 = (Math.imul(rotate(h2, 17) + h3, 5) + 0x0bcaa747) | 0;
    h3 ^= Math.imul(rotate(Math.imul(wordAt(bytes, at + 8), C3), 17), C4);
    h3 = (Math.imul(rotate(h3, 15) + h4, 5) + 0x96cd1c35) | 0;
    h4 ^= Math.imul(rotate(Math.imul(wordAt(bytes, at + 12), C4), 18), C1);
    h4 = (Math.imul(rotate(h4, 13) + h1, 5) + 0x32ac3b17) | 0;
  }
  let k1 = 0;
  let k2 = 0;
  let k3 = 0;
  let k4 = 0;
  for (let i = at; i < end; i++) {
    const place = i - at;
    const byte = bytes[i]! << ((place & 3) * 8);
    if (place < 4) k1 |= byte;
    else if (place < 8) k2 |= byte;
    else if (place < 12) k3 |= byte;
    else k4 |= byte;
  }
  h1 ^= Math.imul(rotate(Math.imul(k1, C1), 15), C2);
  h2 ^= Math.imul(rotate(Math.imul(k2, C2), 16), C3);
  h3 ^= Math.imul(rotate(Math.imul(k3, C3), 17), C4);
  h4 ^= Math.imul(rotate(Math.imul(k4, C4), 18), C1);
  const length = end - start;
  h1 ^= length;
  h2 ^= length;
  h3 ^= length;
  h4 ^= length;
  h1 = (h1 + h2 + h3 + h4) | 0;
  h2 = (h2 + h1) | 0;
  h3 = (h3 + h1) | 0;
  h4 = (h4 + h1) | 0;
  h1 = mix(h1);
  h2 = mix(h2);
  h3 = mix(h3);
  h4 = mix(h4);
  h1 = (h1 + h2 + h3 + h4) | 0;
  hash[0] = h1 || 1;
  hash[1] = h2 + h1;
  hash[2] = h3 + h1;
}

const C1 = 0x239b961b;
const C2 = 0xab0e9789;
const C3 = 0x38b34ae5;
const C4 = 0xa1e38b93;

function wordAt(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
}

function rotate(word: number, by: number): number {
  return (word << by) | (word >>> (32 - by));
}

function mix(word: number): number {
  let mixed = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
