/** Huffman codes of limited length, numbered as DEFLATE requires (RFC 1951, 3.2.2). */
import { CODES_AT, LENGTH_COUNTS, LENGTHS_AT, NEXT_CODES, SORTED, TREE } from './layout';

/** A code: its bits in the order of the stream, and its length in the highest byte. */
export const CODE_LENGTH_SHIFT: u32 = 24;
export const CODE_MASK: u32 = 0xffffff;

/** Bits of a symbol in SORTED; its count is above them. */
const SYMBOL_BITS: u32 = 9;
const SYMBOL_MASK: u32 = 0x1ff;

export function codeOf(alphabet: usize, symbol: u32): u32 {
  return load<u32>(alphabet + ((<usize>symbol) << 2), CODES_AT);
}

export function lengthOf(alphabet: usize, symbol: u32): u32 {
  return load<u8>(alphabet + symbol, LENGTHS_AT);
}

/**
 * Makes the codes of an alphabet from its counts. A symbol that was not counted has the length 0. At least two symbols get a
 * code, as in zlib: some decoders read complete codes only.
 */
export function makeCodes(alphabet: usize, symbols: u32, maxLength: u32): void {
  memory.fill(alphabet + LENGTHS_AT, 0, symbols);
  memory.fill(LENGTH_COUNTS, 0, 4 * 16);
  const used = sortSymbols(alphabet, symbols);
  makeTree(used);
  countLengths(used, maxLength);
  assignLengths(alphabet, maxLength);
  numberCodes(alphabet, symbols, maxLength);
}

/** Sorts the used symbols by count into SORTED, the rarest first, and two at least. Returns their number. */
function sortSymbols(alphabet: usize, symbols: u32): u32 {
  let used: u32 = 0;
  for (let symbol: u32 = 0; symbol < symbols; symbol++) {
    if (load<u32>(alphabet + 4 * symbol) !== 0) used++;
  }
  for (let symbol: u32 = 0; used < 2; symbol++) {
    if (load<u32>(alphabet + 4 * symbol) !== 0) continue;
    store<u32>(alphabet + 4 * symbol, 1);
    used++;
  }
  let end = SORTED;
  for (let symbol: u32 = 0; symbol < symbols; symbol++) {
    const times = load<u32>(alphabet + 4 * symbol);
    if (times === 0) continue;
    const key = (times << SYMBOL_BITS) | symbol;
    let place = end;
    end += 4;
    for (; place > SORTED && load<u32>(place - 4) > key; place -= 4) store<u32>(place, load<u32>(place - 4));
    store<u32>(place, key);
  }
  return used;
}

/**
 * Fills TREE with the depths of the sorted symbols, the deepest first (A. Moffat, J. Katajainen, "In-Place
 * Calculation of Minimum-Redundancy Codes", 1995).
 */
function makeTree(used: u32): void {
  for (let i: u32 = 0; i < used; i++) put(i, load<u32>(SORTED + 4 * i) >> SYMBOL_BITS);
  // joins the two lightest of leaves and inner nodes; a joined node refers to its parent
  let leaf: u32 = 0;
  let inner: u32 = 0;
  for (let parent: u32 = 0; parent < used - 1; parent++) {
    let weight: u32 = 0;
    for (let child = 0; child < 2; child++) {
      if (leaf >= used || (inner < parent && at(inner) < at(leaf))) {
        weight += at(inner);
        put(inner++, parent);
      } else weight += at(leaf++);
    }
    put(parent, weight);
  }
  // depths of the inner nodes, from the root
  put(used - 2, 0);
  for (let i = <i32>used - 3; i >= 0; i--) put(i, at(at(i)) + 1);
  // depths of the leaves: what the inner nodes of a depth leave free
  let free: u32 = 1;
  let depth: u32 = 0;
  let node = <i32>used - 2;
  let next = <i32>used - 1;
  while (free > 0) {
    let taken: u32 = 0;
    for (; node >= 0 && at(node) === depth; node--) taken++;
    for (; free > taken; free--) put(next--, depth);
    free = 2 * taken;
    depth++;
  }
}

function at(index: u32): u32 {
  return load<u32>(TREE + 4 * index);
}

function put(index: u32, value: u32): void {
  store<u32>(TREE + 4 * index, value);
}

/**
 * Counts the codes of each length. Longer codes than the maximum are shortened to it, and others moved until the code
 * is complete again: the sum of 2^(maximum - length) is 2^maximum.
 */
function countLengths(used: u32, maxLength: u32): void {
  const complete = 1 << maxLength;
  let sum = 0;
  for (let i: u32 = 0; i < used; i++) {
    const length = min(at(i), maxLength);
    move(length, 1);
    sum += 1 << (maxLength - length);
  }
  while (sum > complete) {
    let length = maxLength - 1;
    while (lengthCount(length) === 0) length--;
    move(length, -1);
    move(length + 1, 1);
    sum -= 1 << (maxLength - length - 1);
  }
  while (sum < complete) {
    let length = maxLength;
    while (lengthCount(length) === 0) length--;
    move(length, -1);
    move(length - 1, 1);
    sum += 1 << (maxLength - length);
  }
}

function lengthCount(length: u32): u32 {
  return load<u32>(LENGTH_COUNTS + 4 * length);
}

function move(length: u32, by: i32): void {
  store<u32>(LENGTH_COUNTS + 4 * length, lengthCount(length) + by);
}

/** The rarest symbols, which are first in SORTED, get the longest codes. */
function assignLengths(alphabet: usize, maxLength: u32): void {
  let sorted = SORTED;
  for (let length = maxLength; length > 0; length--) {
    for (let left = lengthCount(length); left > 0; left--, sorted += 4)
      store<u8>(alphabet + (load<u32>(sorted) & SYMBOL_MASK), <u8>length, LENGTHS_AT);
  }
}

function numberCodes(alphabet: usize, symbols: u32, maxLength: u32): void {
  let first: u32 = 0;
  for (let length: u32 = 1; length <= maxLength; length++) {
    store<u32>(NEXT_CODES + 4 * length, first);
    first = (first + lengthCount(length)) << 1;
  }
  for (let symbol: u32 = 0; symbol < symbols; symbol++) {
    const length = lengthOf(alphabet, symbol);
    if (length === 0) continue;
    const next = NEXT_CODES + 4 * length;
    const code = load<u32>(next);
    store<u32>(next, code + 1);
    store<u32>(alphabet + 4 * symbol, reversed(code, length) | (length << CODE_LENGTH_SHIFT), CODES_AT);
  }
}

function reversed(code: u32, length: u32): u32 {
  let result: u32 = 0;
  for (; length > 0; length--, code >>= 1) result = (result << 1) | (code & 1);
  return result;
}
