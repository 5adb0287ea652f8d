/** Compresses a stream of pieces (DEFLATE, RFC 1951) to blocks with codes of their own. README.md compares it with zlib. */
import { CODE_LENGTH_SHIFT, CODE_MASK, codeOf, lengthOf, makeCodes } from './codes';
import {
  CODE_LENGTHS,
  CODES_AT,
  DISTANCES,
  HEADER,
  INPUT,
  LITERALS,
  OUTPUT,
  PIECE_BYTES,
  TOKENS,
  WINDOW_BYTES,
} from './layout';
import {
  beginMatches,
  count,
  DISTANCE_MASK,
  distanceExtraBits,
  distanceSymbol,
  findMatches,
  LENGTH_MASK,
  LENGTH_SHIFT,
  lengthExtraBits,
  lengthSymbol,
} from './matches';

export { INPUT, OUTPUT, OUTPUT_BYTES, PIECE_BYTES } from './layout';

const LITERAL_SYMBOLS: u32 = 286;
const DISTANCE_SYMBOLS: u32 = 30;
const HEADER_SYMBOLS: u32 = 19;
const MAX_CODE_LENGTH: u32 = 15;
const MAX_HEADER_CODE_LENGTH: u32 = 7;
const END_OF_BLOCK: u32 = 256;
const DYNAMIC_CODES: u32 = 2;

/** Symbols of the header for 3 to 10 lengths of 0, and for 11 to 138. */
const FEW_ZEROS: u32 = 17;
const MANY_ZEROS: u32 = 18;
/** Order in which the lengths of the header's own codes are written. */
const HEADER_ORDER: usize = memory.data<u8>([
  16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
]);

/** address of the next whole byte */
let output: usize = OUTPUT;
/** bits that are no whole byte yet, the first the lowest, and their number */
let bits: u64 = 0;
let held: u32 = 0;

/** Begins a stream of `bytes`. */
export function begin(bytes: u32): void {
  bits = 0;
  held = 0;
  beginMatches(bytes);
}

/**
 * Compresses the next piece, `length` bytes at INPUT, to a block. All but the last have PIECE_BYTES. Returns the number of bytes at
 * OUTPUT; the last one may follow with the next block.
 */
export function compress(length: u32, isLast: bool): u32 {
  output = OUTPUT;
  memory.fill(LITERALS, 0, 4 * LITERAL_SYMBOLS);
  memory.fill(DISTANCES, 0, 4 * DISTANCE_SYMBOLS);
  const end = findMatches(length);
  count(LITERALS, END_OF_BLOCK);
  makeCodes(LITERALS, LITERAL_SYMBOLS, MAX_CODE_LENGTH);
  makeCodes(DISTANCES, DISTANCE_SYMBOLS, MAX_CODE_LENGTH);
  write((isLast ? 1 : 0) | (DYNAMIC_CODES << 1), 3);
  writeHeader();
  writeTokens(end);
  writeCode(codeOf(LITERALS, END_OF_BLOCK));
  if (isLast && held > 0) write(0, 8 - held);
  if (!isLast) memory.copy(INPUT - WINDOW_BYTES, INPUT + PIECE_BYTES - WINDOW_BYTES, WINDOW_BYTES);
  return <u32>(output - OUTPUT);
}

function writeTokens(end: usize): void {
  // globals are memory, locals are registers
  let to = output;
  let pending = bits;
  let size = held;
  for (let at = TOKENS; at < end; at += 4) {
    const token = load<u32>(at);
    if (<i32>token >= 0) {
      const code = load<u32>(LITERALS + ((<usize>token) << 2), CODES_AT);
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

/** Writes the lengths of the codes of both alphabets. */
function writeHeader(): void {
  let literals = LITERAL_SYMBOLS;
  while (lengthOf(LITERALS, literals - 1) === 0) literals--;
  let distances = DISTANCE_SYMBOLS;
  while (distances > 1 && lengthOf(DISTANCES, distances - 1) === 0) distances--;
  memory.fill(CODE_LENGTHS, 0, 4 * HEADER_SYMBOLS);
  const end = appendRuns(literals, distances);
  makeCodes(CODE_LENGTHS, HEADER_SYMBOLS, MAX_HEADER_CODE_LENGTH);
  let written = HEADER_SYMBOLS;
  while (lengthOf(CODE_LENGTHS, load<u8>(HEADER_ORDER + written - 1)) === 0) written--;
  write(literals - 257, 5);
  write(distances - 1, 5);
  write(written - 4, 4);
  for (let i: u32 = 0; i < written; i++) write(lengthOf(CODE_LENGTHS, load<u8>(HEADER_ORDER + i)), 3);
  for (let at = HEADER; at < end; at += 2) {
    const symbol = <u32>load<u8>(at);
    writeCode(codeOf(CODE_LENGTHS, symbol));
    if (symbol >= FEW_ZEROS) write(load<u8>(at, 1), symbol === FEW_ZEROS ? 3 : 7);
  }
}

/** Writes the lengths as symbols with runs of zeros to HEADER, u8 each with u8 extra bits. Returns the address behind them. */
function appendRuns(literals: u32, distances: u32): usize {
  const all = literals + distances;
  let to = HEADER;
  for (let i: u32 = 0; i < all; ) {
    let zeros: u32 = 0;
    while (zeros < 138 && i + zeros < all && lengthAt(i + zeros, literals) === 0) zeros++;
    if (zeros > 10) to = appendSymbol(to, MANY_ZEROS, zeros - 11);
    else if (zeros > 2) to = appendSymbol(to, FEW_ZEROS, zeros - 3);
    else to = appendSymbol(to, lengthAt(i, literals), 0);
    i += zeros > 2 ? zeros : 1;
  }
  return to;
}

function lengthAt(index: u32, literals: u32): u32 {
  return index < literals ? lengthOf(LITERALS, index) : lengthOf(DISTANCES, index - literals);
}

function appendSymbol(to: usize, symbol: u32, extra: u32): usize {
  store<u8>(to, <u8>symbol);
  store<u8>(to, <u8>extra, 1);
  count(CODE_LENGTHS, symbol);
  return to + 2;
}

function writeCode(code: u32): void {
  write(code & CODE_MASK, code >> CODE_LENGTH_SHIFT);
}

function write(value: u32, size: u32): void {
  bits |= (<u64>value) << held;
  held += size;
  for (; held >= 8; held -= 8, bits >>= 8) store<u8>(output++, <u8>bits);
}
