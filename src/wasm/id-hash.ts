import { openHashes } from './cache.ts';
import { MAX_KEY_BYTES } from './constants.ts';

const { wasm, memory } = openHashes();
/** Space for one key. */
const input = Buffer.from(memory.buffer, wasm.INPUT.value, MAX_KEY_BYTES);
const encoder = new TextEncoder();

/** Lower and upper half of the last hash, each a u32. */
export const hash = new Uint32Array(memory.buffer, wasm.RESULT.value, 2);

/**
 * Writes the keyed hash (assembly/hash.ts) of a key in a namespace to `hash`. Returns false, without a hash, for what is no
 * key: empty, or longer than any.
 */
export function hashKey(namespace: number, key: string): boolean {
  const { length } = key;
  if (length === 0 || length > input.length) return false;
  let bytes = 0;
  for (; bytes < length; bytes++) {
    const code = key.charCodeAt(bytes);
    if (code > 0x7f) {
      const { read, written } = encoder.encodeInto(key, input);
      if (read !== length) return false;
      bytes = written;
      break;
    }
    input[bytes] = code;
  }
  wasm.hash(namespace, bytes);
  return true;
}
