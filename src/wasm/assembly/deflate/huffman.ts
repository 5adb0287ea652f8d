/** Huffman codes of limited length, numbered as DEFLATE requires (RFC 1951, 3.2.2). */
import { CODES_AT, LENGTH_COUNTS, LENGTHS_AT, NEXT_CODES, SORTED } from './layout';

/** A code: its bits in the order of the stream, and its length in the highest byte. */
export const CODE_LENGTH_SHIFT: u32 = 24;
export const CODE_MASK: u32 = 0xffffff;

/** Bits of a symbol in SORTED; its count is above them. */
const SYMBOL_BITS: u32 = 9;
const SYMBOL_MASK: u32 = 0x1ff;
/** Factor of a share's inverse before its logarithm is rounded down. With 1.4 or 1.6, batches and single hotels are larger. */
const ROUNDING: f64 = 1.5;

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
 * Counts the codes of each length: at first the binary logarithm of the inverse share of each symbol, rounded. Then codes are
 * lengthened or shortened until they are complete: the sum of 2^(maximum - length) is 2^maximum. A batch of hotels is 0.4 %
 * longer than with Huffman's codes.
 */
function countLengths(used: u32, maxLength: u32): void {
  let total: f64 = 0;
  for (let i: u32 = 0; i < used; i++) total += timesOf(i);
  let room = 1 << maxLength;
  for (let i: u32 = 0; i < used; i++) {
    // the exponent of the float is the logarithm, rounded down
    const logarithm = <u32>(reinterpret<u64>((ROUNDING * total) / timesOf(i)) >> 52) - 1023;
    const length = min(max(logarithm, 1), maxLength);
    move(length, 1);
    room -= 1 << (maxLength - length);
  }
  while (room < 0) {
    let length: u32 = 1;
    while (length < maxLength - 1 && !fits(length, maxLength - length - 1, -room)) length++;
    while (lengthCount(length) === 0) length--;
    move(length, -1);
    move(length + 1, 1);
    room += 1 << (maxLength - length - 1);
  }
  while (room > 0) {
    let length: u32 = 2;
    while (!fits(length, maxLength - length, room)) length++;
    move(length, -1);
    move(length - 1, 1);
    room -= 1 << (maxLength - length);
  }
}

/** Returns true if there is a code of this length, and 2^change is at most `room`. */
function fits(length: u32, change: u32, room: i32): bool {
  return lengthCount(length) > 0 && 1 << change <= room;
}

function timesOf(sorted: u32): f64 {
  return <f64>(load<u32>(SORTED + 4 * <usize>sorted) >> SYMBOL_BITS);
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
