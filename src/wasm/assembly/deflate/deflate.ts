/** Compresses a stream of pieces (DEFLATE, RFC 1951). README.md compares it with zlib. */
import { beginBlock, beginStream, writeBlock } from './block';
import { INPUT, PIECE_BYTES, WINDOW_BYTES } from './layout';
import { beginMatches, findMatches } from './matches';

export { INPUT, OUTPUT, OUTPUT_BYTES, PIECE_BYTES } from './layout';

/** Streams below this size find few matches, so shorter ones are looked for. */
const SMALL_BYTES: u32 = 0x8000;
const HASHED_OF_SMALL: u32 = 5;
const HASHED: u32 = 6;

/** Begins a stream of `bytes`. */
export function begin(bytes: u32): void {
  beginStream();
  beginMatches(bytes < SMALL_BYTES ? HASHED_OF_SMALL : HASHED);
}

/**
 * Compresses the next piece, `length` bytes at INPUT. All but the last have PIECE_BYTES. Returns the number of bytes at
 * OUTPUT.
 */
export function compress(length: u32, isLast: bool): u32 {
  beginBlock();
  const written = writeBlock(findMatches(length), isLast);
  if (!isLast) memory.copy(INPUT - WINDOW_BYTES, INPUT + PIECE_BYTES - WINDOW_BYTES, WINDOW_BYTES);
  return written;
}
