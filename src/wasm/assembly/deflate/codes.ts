/**
 * Alphabets of DEFLATE (RFC 1951, 3.2.5) and their prefix codes of limited length, numbered as it requires (3.2.2). An alphabet
 * is in the memory: u32 counts of its symbols, behind them u32 codes, behind them u8 lengths of codes.
 */

const MAX_SYMBOLS: usize = 288;
const CODES_AT: usize = 4 * MAX_SYMBOLS;
const LENGTHS_AT: usize = 8 * MAX_SYMBOLS;
const ALPHABET_BYTES: usize = 9 * MAX_SYMBOLS;

/** Literals and lengths. */
export const LITERALS: usize = 0xb0000;
export const DISTANCES: usize = LITERALS + ALPHABET_BYTES;
/** The lengths of codes, and runs of zeros among them. */
export const CODE_LENGTHS: usize = DISTANCES + ALPHABET_BYTES;
export const LITERAL_SYMBOLS: u32 = 286;
export const DISTANCE_SYMBOLS: u32 = 30;
export const END_OF_BLOCK: u32 = 256;

/** The used symbols of an alphabet, u16 each. */
const USED: usize = CODE_LENGTHS + ALPHABET_BYTES;
/** Number of codes of each length, and the next code of each length, u32. */
const LENGTH_COUNTS: usize = USED + 2 * MAX_SYMBOLS;
const NEXT_CODES: usize = LENGTH_COUNTS + 4 * 16;

/** A code: its bits in the order of the stream, and its length in the highest byte. */
export const CODE_LENGTH_SHIFT: u32 = 24;
export const CODE_MASK: u32 = 0xffffff;
/** DEFLATE allows 15. */
const MAX_CODE_LENGTH: u32 = 12;

/** Factor of a share's inverse before its logarithm is rounded down. With 1.38 or 1.5, single hotels are larger. */
const ROUNDING: f64 = 1.44;

export function codeOf(alphabet: usize, symbol: u32): u32 {
  return load<u32>(alphabet + ((<usize>symbol) << 2), CODES_AT);
}

export function lengthOf(alphabet: usize, symbol: u32): u32 {
  return load<u8>(alphabet + symbol, LENGTHS_AT);
}

/**
 * Forgets the counts. At least two symbols of an alphabet get a code, as in zlib: some decoders read complete codes only. Those
 * counted here are frequent in hotels.
 */
export function beginCounts(): void {
  memory.fill(LITERALS, 0, 4 * LITERAL_SYMBOLS);
  memory.fill(DISTANCES, 0, 4 * DISTANCE_SYMBOLS);
  count(LITERALS, 0x22);
  count(LITERALS, END_OF_BLOCK);
  count(DISTANCES, 8);
  count(DISTANCES, 10);
}

/** Counts a symbol of an alphabet. */
export function count(alphabet: usize, symbol: u32): void {
  const counter = alphabet + ((<usize>symbol) << 2);
  store<u32>(counter, load<u32>(counter) + 1);
}

/**
 * Makes the codes of an alphabet from its counts. A symbol that was not counted has the length 0.
 *
 * The length is at first the binary logarithm of the inverse share of the symbol, rounded. Then codes are lengthened or shortened
 * until they are complete: the sum of 2^(maximum - length) is 2^maximum. A batch of hotels is 0.4 % larger than with Huffman's
 * codes.
 */
export function makeCodes(alphabet: usize, symbols: u32): void {
  memory.fill(alphabet + LENGTHS_AT, 0, symbols);
  let end = USED;
  let total: f64 = 0;
  for (let symbol: u32 = 0; symbol < symbols; symbol++) {
    const times = load<u32>(alphabet + 4 * symbol);
    if (times === 0) continue;
    total += times;
    store<u16>(end, <u16>symbol);
    end += 2;
  }
  let room = 1 << MAX_CODE_LENGTH;
  for (let used = USED; used < end; used += 2) {
    const symbol: u32 = load<u16>(used);
    // the exponent of a float is its logarithm, rounded down
    const inverse = total / load<u32>(alphabet + 4 * symbol);
    const logarithm = <u32>(reinterpret<u64>(ROUNDING * inverse) >> 52) - 1023;
    room -= setLength(alphabet, symbol, min(max(logarithm, 1), MAX_CODE_LENGTH));
  }
  for (let length = MAX_CODE_LENGTH - 1; room < 0; length--) {
    for (let used = USED; used < end && room < 0; used += 2)
      if (lengthOf(alphabet, load<u16>(used)) === length)
        room += setLength(alphabet, load<u16>(used), length + 1);
  }
  for (let length: u32 = 2; room > 0; length = length < MAX_CODE_LENGTH ? length + 1 : 2) {
    const step = 1 << (MAX_CODE_LENGTH - length);
    for (let used = USED; used < end && room >= step; used += 2)
      if (lengthOf(alphabet, load<u16>(used)) === length) {
        setLength(alphabet, load<u16>(used), length - 1);
        room -= step;
      }
  }
  numberCodes(alphabet, symbols);
}

/** Sets the length of a code; returns its part of all 2^MAX_CODE_LENGTH. */
export function setLength(alphabet: usize, symbol: u32, length: u32): i32 {
  store<u8>(alphabet + symbol, <u8>length, LENGTHS_AT);
  return 1 << (MAX_CODE_LENGTH - length);
}

/** Makes the codes of an alphabet from their lengths. */
export function numberCodes(alphabet: usize, symbols: u32): void {
  memory.fill(LENGTH_COUNTS, 0, 4 * 16);
  for (let symbol: u32 = 0; symbol < symbols; symbol++) count(LENGTH_COUNTS, lengthOf(alphabet, symbol));
  let first: u32 = 0;
  for (let length: u32 = 1; length <= MAX_CODE_LENGTH; length++) {
    store<u32>(NEXT_CODES + 4 * length, first);
    first = (first + load<u32>(LENGTH_COUNTS + 4 * length)) << 1;
  }
  for (let symbol: u32 = 0; symbol < symbols; symbol++) {
    const length = lengthOf(alphabet, symbol);
    if (length === 0) continue;
    const code = load<u32>(NEXT_CODES + 4 * length);
    count(NEXT_CODES, length);
    store<u32>(alphabet + 4 * symbol, reversed(code, length) | (length << CODE_LENGTH_SHIFT), CODES_AT);
  }
}

function reversed(code: u32, length: u32): u32 {
  let result: u32 = 0;
  for (; length > 0; length--, code >>= 1) result = (result << 1) | (code & 1);
  return result;
}

/** Returns the symbol of a length less than 258. */
export function lengthSymbol(length: u32): u32 {
  const value = length - 3;
  if (value < 8) return 257 + value;
  const extra = lengthExtraBits(length);
  return 257 + (extra << 2) + (value >> extra);
}

export function lengthExtraBits(length: u32): u32 {
  const value = length - 3;
  return value < 8 ? 0 : 29 - <u32>clz(value);
}

export function distanceSymbol(distance: u32): u32 {
  const value = distance - 1;
  if (value < 4) return value;
  const extra = distanceExtraBits(distance);
  return (extra << 1) + (value >> extra);
}

export function distanceExtraBits(distance: u32): u32 {
  const value = distance - 1;
  return value < 4 ? 0 : 30 - <u32>clz(value);
}
