/**
 * Finds repetitions as LZ4 does (https://github.com/lz4/lz4): the last position with the same hash is the only
 * candidate, and the positions within a match are mostly not hashed.
 */
import { DISTANCES, HASH_BITS, INPUT, LITERALS, POSITIONS, TOKENS, WINDOW_BYTES } from './layout';

/** Flag of a token that is a match: the length is in bits 16 to 24, the distance minus one in bits 0 to 14. */
export const MATCH: u32 = 0x80000000;
export const LENGTH_SHIFT: u32 = 16;
export const LENGTH_MASK: u32 = 0x1ff;
export const DISTANCE_MASK: u32 = 0x7fff;

/** One less than DEFLATE allows: the length 258 has a code outside the scheme of the others. */
const MAX_MATCH: u32 = 257;
/** Bytes at the end where nothing is looked up: the hashes of a position and of the third after it read as many. */
const READ_BYTES: u32 = 11;
// biome-ignore lint/correctness/noPrecisionLoss: 64 bits in AssemblyScript
const MULTIPLIER: u64 = 0x9e3779b185ebca87;
/** Number of hashed bytes, the minimum length of most matches. Streams below SMALL_BYTES find few, so shorter ones are looked for. */
const HASHED: u32 = 6;
const HASHED_OF_SMALL: u32 = 5;
const SMALL_BYTES: u32 = 0x8000;
/** Position after which a new stream clears the table. A stream of up to 1 GiB does not exceed 32 bits. */
const MAX_POSITION: u32 = 0xc0000000;

/** Position of the first byte of the next piece. Positions of an earlier stream are farther away than the window. */
let position: u32 = WINDOW_BYTES + 1;
/** bits to the left of the hashed bytes */
let shift: u64 = 16;

/** Begins a stream of `bytes`: forgets those before. */
export function beginMatches(bytes: u32): void {
  position += WINDOW_BYTES;
  shift = 64 - 8 * (bytes < SMALL_BYTES ? HASHED_OF_SMALL : HASHED);
  if (position >= MAX_POSITION) {
    memory.fill(POSITIONS, 0, 4 << HASH_BITS);
    position = WINDOW_BYTES + 1;
  }
}

/** Writes the tokens of the piece and counts their symbols. Returns the address behind the last token. */
export function findMatches(length: u32): usize {
  const end = INPUT + length;
  // the last bytes are literals, so that nothing behind them is read
  const lookUntil = length >= READ_BYTES ? end - READ_BYTES : INPUT - 1;
  const offset = position - <u32>INPUT;
  position += length;
  let token = TOKENS;
  let at = INPUT;
  while (at <= lookUntil) {
    const bytes = load<u64>(at);
    const place = placeOf(bytes);
    const here = <u32>at + offset;
    const distance = here - load<u32>(place);
    store<u32>(place, here);
    if (distance <= WINDOW_BYTES) {
      const different = bytes ^ load<u64>(at - distance);
      if (<u32>different === 0) {
        const matched = different === 0 ? matchLength(at, distance, end) : <u32>ctz(different) >> 3;
        store<u32>(token, MATCH | (matched << LENGTH_SHIFT) | (distance - 1));
        token += 4;
        count(LITERALS, lengthSymbol(matched));
        count(DISTANCES, distanceSymbol(distance));
        store<u32>(placeOf(load<u64>(at + 1)), here + 1);
        store<u32>(placeOf(load<u64>(at + 3)), here + 3);
        at += matched;
        if (at <= lookUntil) store<u32>(placeOf(load<u64>(at - 2)), here + matched - 2);
        continue;
      }
    }
    token = appendLiteral(token, <u32>(bytes & 0xff));
    at++;
  }
  for (; at < end; at++) token = appendLiteral(token, load<u8>(at));
  return token;
}

/** Returns the length of a match whose first eight bytes are the same; READ_BYTES are left. */
function matchLength(at: usize, distance: u32, end: usize): u32 {
  const longest = min<u32>(MAX_MATCH, <u32>(end - at));
  let length: u32 = 8;
  for (; length + 8 <= longest; length += 8) {
    const different = load<u64>(at + length) ^ load<u64>(at + length - distance);
    if (different !== 0) return length + (<u32>ctz(different) >> 3);
  }
  while (length < longest && load<u8>(at + length) === load<u8>(at + length - distance)) length++;
  return length;
}

function placeOf(bytes: u64): usize {
  return POSITIONS + ((<usize>(((bytes << shift) * MULTIPLIER) >> (64 - HASH_BITS))) << 2);
}

/** Counts a symbol of an alphabet. */
export function count(alphabet: usize, symbol: u32): void {
  const counter = alphabet + ((<usize>symbol) << 2);
  store<u32>(counter, load<u32>(counter) + 1);
}

/** Writes the token of a byte; returns the address behind it. */
function appendLiteral(token: usize, literal: u32): usize {
  store<u32>(token, literal);
  count(LITERALS, literal);
  return token + 4;
}

/** Returns the symbol of a length less than 258 (RFC 1951, 3.2.5). */
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

/** Returns the symbol of a distance (RFC 1951, 3.2.5). */
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
