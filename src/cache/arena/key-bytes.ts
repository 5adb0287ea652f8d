import { charCodeAt } from '../../lib/char-code-at.ts';
import { MAX_KEY_BYTES } from '../../wasm/constants.ts';

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
