/**
 * Compresses a stream of pieces (DEFLATE, RFC 1951) to blocks with codes of their own. Repetitions are found as LZ4 does
 * (https://github.com/lz4/lz4): the last position with the same hash is the only candidate, and the positions within a match are
 * mostly not hashed. docs/benchmarks.md compares it with zlib.
 */
import {
  beginCounts,
  CODE_LENGTH_SHIFT,
  CODE_LENGTHS,
  CODE_MASK,
  codeOf,
  count,
  DISTANCE_SYMBOLS,
  DISTANCES,
  distanceExtraBits,
  distanceSymbol,
  END_OF_BLOCK,
  LITERAL_SYMBOLS,
  LITERALS,
  lengthExtraBits,
  lengthOf,
  lengthSymbol,
  makeCodes,
  numberCodes,
  setLength,
} from './codes';

/** Maximum distance of a match. */
const WINDOW_BYTES: u32 = 0x8000;
export const PIECE_BYTES: u32 = 0x20000;
/** The piece, behind the window before it. */
export const INPUT: usize = 0x100000;
/** Compressed bytes of a piece: less than 10 bits for each byte on average, header included; noise takes 8.01. */
export const OUTPUT: usize = INPUT + PIECE_BYTES;
export const OUTPUT_BYTES: u32 = PIECE_BYTES + PIECE_BYTES / 4;
/** Last position of each hash, u32. The static data of the compiler is before it, the alphabets are behind the tokens. */
const POSITIONS: usize = 0x10000;
const HASH_BITS: u32 = 15;
/** Tokens of a piece, u32: a byte, or MATCH with the length in bits 16 to 24 and the distance minus one in bits 0 to 14. */
const TOKENS: usize = POSITIONS + (4 << HASH_BITS);
const MATCH: u32 = 0x80000000;
const LENGTH_SHIFT: u32 = 16;
const LENGTH_MASK: u32 = 0x1ff;
const DISTANCE_MASK: u32 = 0x7fff;

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

const DYNAMIC_CODES: u32 = 2;
/** Symbols of the header for 3 to 10 lengths of 0, and for 11 to 138. */
const FEW_ZEROS: u32 = 17;
const MANY_ZEROS: u32 = 18;
const HEADER_SYMBOLS: u32 = 19;
/** Lengths of the codes of these symbols, which suit single hotels. */
const HEADER_LENGTHS: usize = memory.data<u8>([3, 7, 7, 5, 4, 3, 3, 3, 4, 4, 3, 6, 5, 0, 0, 0, 0, 4, 5]);
/** Order in which these lengths are written. */
const HEADER_ORDER: usize = memory.data<u8>([
  16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
]);
for (let symbol: u32 = 0; symbol < HEADER_SYMBOLS; symbol++)
  setLength(CODE_LENGTHS, symbol, load<u8>(HEADER_LENGTHS + symbol));
numberCodes(CODE_LENGTHS, HEADER_SYMBOLS);

/** Position of the first byte of the next piece. Positions of an earlier stream are farther away than the window. */
let position: u32 = WINDOW_BYTES + 1;
/** bits to the left of the hashed bytes */
let shift: u64 = 16;
/** address of the next whole byte */
let output: usize = OUTPUT;
/** bits that are no whole byte yet, the first the lowest, and their number */
let bits: u64 = 0;
let held: u32 = 0;

/** Begins a stream of `bytes`: forgets those before. */
export function begin(bytes: u32): void {
  bits = 0;
  held = 0;
  position += WINDOW_BYTES;
  shift = 64 - 8 * (bytes < SMALL_BYTES ? HASHED_OF_SMALL : HASHED);
  if (position < MAX_POSITION) return;
  memory.fill(POSITIONS, 0, 4 << HASH_BITS);
  position = WINDOW_BYTES + 1;
}

/**
 * Compresses the next piece, `length` bytes at INPUT, to a block. All but the last have PIECE_BYTES. Returns the number of bytes at
 * OUTPUT; the last one may follow with the next block.
 */
export function compress(length: u32, isLast: bool): u32 {
  output = OUTPUT;
  beginCounts();
  const end = findMatches(length);
  makeCodes(LITERALS, LITERAL_SYMBOLS);
  makeCodes(DISTANCES, DISTANCE_SYMBOLS);
  write((isLast ? 1 : 0) | (DYNAMIC_CODES << 1), 3);
  writeHeader();
  writeTokens(end);
  writeCode(LITERALS, END_OF_BLOCK);
  if (isLast && held > 0) write(0, 8 - held);
  if (!isLast) memory.copy(INPUT - WINDOW_BYTES, INPUT + PIECE_BYTES - WINDOW_BYTES, WINDOW_BYTES);
  return <u32>(output - OUTPUT);
}

/** Writes the tokens of the piece and counts their symbols. Returns the address behind the last token. */
function findMatches(length: u32): usize {
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

/** Writes the token of a byte; returns the address behind it. */
function appendLiteral(token: usize, literal: u32): usize {
  store<u32>(token, literal);
  count(LITERALS, literal);
  return token + 4;
}

function writeTokens(end: usize): void {
  // globals are memory, locals are registers
  let to = output;
  let pending = bits;
  let size = held;
  for (let at = TOKENS; at < end; at += 4) {
    const token = load<u32>(at);
    if (<i32>token >= 0) {
      const code = codeOf(LITERALS, token);
      pending |= (<u64>(code & CODE_MASK)) << size;
      size += code >> CODE_LENGTH_SHIFT;
    } else {
      const length = (token >> LENGTH_SHIFT) & LENGTH_MASK;
      const distance = (token & DISTANCE_MASK) + 1;
      let code = codeOf(LITERALS, lengthSymbol(length));
      pending |= (<u64>(code & CODE_MASK)) << size;
      size += code >> CODE_LENGTH_SHIFT;
      let extra = lengthExtraBits(length);
      pending |= (<u64>((length - 3) & ((1 << extra) - 1))) << size;
      size += extra;
      // up to 31 bits of before and 20 of the length; 28 of the distance follow
      store<u64>(to, pending);
      to += size >> 3;
      pending >>= size & ~7;
      size &= 7;
      code = codeOf(DISTANCES, distanceSymbol(distance));
      pending |= (<u64>(code & CODE_MASK)) << size;
      size += code >> CODE_LENGTH_SHIFT;
      extra = distanceExtraBits(distance);
      pending |= (<u64>((distance - 1) & ((1 << extra) - 1))) << size;
      size += extra;
    }
    if (size < 32) continue;
    store<u32>(to, <u32>pending);
    to += 4;
    pending >>= 32;
    size -= 32;
  }
  output = to;
  bits = pending;
  held = size;
}

/** Writes the lengths of the codes of all literals and distances. */
function writeHeader(): void {
  let all = LITERAL_SYMBOLS + DISTANCE_SYMBOLS;
  while (lengthAt(all - 1) === 0) all--;
  write(LITERAL_SYMBOLS - 257, 5);
  write(all - LITERAL_SYMBOLS - 1, 5);
  write(HEADER_SYMBOLS - 4, 4);
  for (let i: u32 = 0; i < HEADER_SYMBOLS; i++) write(lengthOf(CODE_LENGTHS, load<u8>(HEADER_ORDER + i)), 3);
  for (let i: u32 = 0; i < all; ) {
    let zeros: u32 = 0;
    while (zeros < 138 && i + zeros < all && lengthAt(i + zeros) === 0) zeros++;
    i += zeros > 2 ? zeros : 1;
    if (zeros > 10) {
      writeCode(CODE_LENGTHS, MANY_ZEROS);
      write(zeros - 11, 7);
    } else if (zeros > 2) {
      writeCode(CODE_LENGTHS, FEW_ZEROS);
      write(zeros - 3, 3);
    } else writeCode(CODE_LENGTHS, lengthAt(i - 1));
  }
}

/** Returns the length of the code of a literal, or behind these of a distance. */
function lengthAt(index: u32): u32 {
  return index < LITERAL_SYMBOLS ? lengthOf(LITERALS, index) : lengthOf(DISTANCES, index - LITERAL_SYMBOLS);
}

function writeCode(alphabet: usize, symbol: u32): void {
  const code = codeOf(alphabet, symbol);
  write(code & CODE_MASK, code >> CODE_LENGTH_SHIFT);
}

function write(value: u32, size: u32): void {
  bits |= (<u64>value) << held;
  held += size;
  for (; held >= 8; held -= 8, bits >>= 8) store<u8>(output++, <u8>bits);
}
