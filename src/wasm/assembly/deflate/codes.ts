/** Prefix codes of limited length, numbered as DEFLATE requires (RFC 1951, 3.2.2). */
import { CODES_AT, LENGTH_COUNTS, LENGTHS_AT, NEXT_CODES, USED } from './layout';

/** A code: its bits in the order of the stream, and its length in the highest byte. */
export const CODE_LENGTH_SHIFT: u32 = 24;
export const CODE_MASK: u32 = 0xffffff;

/** Factor of a share's inverse before its logarithm is rounded down. With 1.38 or 1.5, single hotels are larger. */
const ROUNDING: f64 = 1.44;

export function codeOf(alphabet: usize, symbol: u32): u32 {
  return load<u32>(alphabet + ((<usize>symbol) << 2), CODES_AT);
}

export function lengthOf(alphabet: usize, symbol: u32): u32 {
  return load<u8>(alphabet + symbol, LENGTHS_AT);
}

/**
 * Makes the codes of an alphabet from its counts. A symbol that was not counted has the length 0. At least two symbols get a
 * code, as in zlib: some decoders read complete codes only.
 *
 * The length is at first the binary logarithm of the inverse share of the symbol, rounded. Then codes are lengthened or shortened
 * until they are complete: the sum of 2^(maximum - length) is 2^maximum. A batch of hotels is 0.4 % larger than with Huffman's
 * codes.
 */
export function makeCodes(alphabet: usize, symbols: u32, maxLength: u32): void {
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
  for (let symbol: u32 = 0; end < USED + 4; symbol++) {
    if (load<u32>(alphabet + 4 * symbol) !== 0) continue;
    store<u32>(alphabet + 4 * symbol, 1);
    total++;
    store<u16>(end, <u16>symbol);
    end += 2;
  }
  let room = 1 << maxLength;
  for (let used = USED; used < end; used += 2) {
    const symbol: u32 = load<u16>(used);
    // the exponent of a float is its logarithm, rounded down
    const inverse = total / load<u32>(alphabet + 4 * symbol);
    const logarithm = <u32>(reinterpret<u64>(ROUNDING * inverse) >> 52) - 1023;
    room -= setLength(alphabet, symbol, min(max(logarithm, 1), maxLength), maxLength);
  }
  for (let length = maxLength - 1; room < 0; length--) {
    for (let used = USED; used < end && room < 0; used += 2)
      if (lengthOf(alphabet, load<u16>(used)) === length)
        room += setLength(alphabet, load<u16>(used), length + 1, maxLength);
  }
  for (let length: u32 = 2; room > 0; length = length < maxLength ? length + 1 : 2) {
    const step = 1 << (maxLength - length);
    for (let used = USED; used < end && room >= step; used += 2)
      if (lengthOf(alphabet, load<u16>(used)) === length) {
        setLength(alphabet, load<u16>(used), length - 1, maxLength);
        room -= step;
      }
  }
  numberCodes(alphabet, symbols, maxLength);
}

/** Sets the length of a code; returns its part of all 2^maxLength. */
function setLength(alphabet: usize, symbol: u32, length: u32, maxLength: u32): i32 {
  store<u8>(alphabet + symbol, <u8>length, LENGTHS_AT);
  return 1 << (maxLength - length);
}

function numberCodes(alphabet: usize, symbols: u32, maxLength: u32): void {
  memory.fill(LENGTH_COUNTS, 0, 4 * 16);
  for (let symbol: u32 = 0; symbol < symbols; symbol++) {
    const counter = LENGTH_COUNTS + 4 * lengthOf(alphabet, symbol);
    store<u32>(counter, load<u32>(counter) + 1);
  }
  let first: u32 = 0;
  for (let length: u32 = 1; length <= maxLength; length++) {
    store<u32>(NEXT_CODES + 4 * length, first);
    first = (first + load<u32>(LENGTH_COUNTS + 4 * length)) << 1;
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
