import { charCodeAt } from '../lib/char-code-at.ts';
import { MAX_KEY_BYTES } from './constants.ts';

const encoder = new TextEncoder();

/**
 * Writes a key as UTF-8 into MAX_KEY_BYTES of space. Returns its length in bytes, or 0 for a key that no record can have:
 * empty, longer than MAX_KEY_BYTES, with a NUL or a lone surrogate.
 */
export function writeKey(bytes: Uint8Array, key: string, at: number): number {
  const { length } = key;
  if (length < 64) {
    let i = 0;
    for (; i < length; i++) {
      const code = charCodeAt(key, i);
      if (code === 0 || code > 0x7f) break;
      bytes[at + i] = code;
    }
    if (i === length) return length;
  }
  if (length > MAX_KEY_BYTES || !key.isWellFormed() || key.includes('\0')) return 0;
  const { read, written } = encoder.encodeInto(key, bytes.subarray(at, at + MAX_KEY_BYTES));
  return read === length ? written : 0;
}

/**
 * Writes keys to the `length` bytes of space from `at`, and the place and length of each to its element: four words of `words`
 * from `element` on. A key that no record can have has length 0.
 */
export function writeKeys(
  bytes: Buffer,
  keys: readonly string[],
  at: number,
  length: number,
  words: Uint32Array,
  element: number,
): void {
  const joined = keys.join('');
  // all at once if they are plain: a character of ASCII is a byte, every other one takes two or three
  const isPlain =
    3 * joined.length <= length && bytes.write(joined, at) === joined.length && !joined.includes('\0');
  for (const key of keys) {
    const written = isPlain ? key.length : writeKey(bytes, key, at);
    words[element] = at;
    words[element + 1] = written > MAX_KEY_BYTES ? 0 : written;
    element += 4;
    at += written;
  }
}
