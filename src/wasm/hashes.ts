import { instantiateCache } from './cache.ts';
import { MAX_KEY_BYTES } from './constants.ts';
import { HASH_SEED, PAGE_BYTES } from './load.ts';

/** Instance for hashes alone. Its memory ends behind the input. */
const { wasm, memory } = instantiateCache(PAGE_BYTES);
wasm.init(0, 0, ...HASH_SEED);
memory.grow(Math.ceil((wasm.INPUT.value + wasm.INPUT_BYTES.value) / PAGE_BYTES));
const input = Buffer.from(memory.buffer, wasm.INPUT.value);
/** Space for one key. */
const keyInput = input.subarray(0, MAX_KEY_BYTES);
const encoder = new TextEncoder();

/** Lower and upper half of the last hash of a key, each a u32. */
export const hash = new Uint32Array(memory.buffer, wasm.RESULT.value, 2);

/**
 * Writes the keyed hash (assembly/hash.ts) of a key in a namespace to `hash`. Returns false, without a hash, for what is no
 * key: empty, or longer than any.
 */
export function hashKey(namespace: number, key: string): boolean {
  const { length } = key;
  if (length === 0 || length > MAX_KEY_BYTES) return false;
  let bytes = 0;
  for (; bytes < length; bytes++) {
    const code = key.charCodeAt(bytes);
    if (code > 0x7f) {
      const { read, written } = encoder.encodeInto(key, keyInput);
      if (read !== length) return false;
      bytes = written;
      break;
    }
    keyInput[bytes] = code;
  }
  wasm.hash(namespace, bytes);
  return true;
}

/** Bodies that compile the parser: V8 optimises it only after it has run for a while. */
const BODIES = 16;
const BODY = Buffer.from(`{"x":[${'1,'.repeat(8_000)}"a"]}`);

// the first body of 1 MiB must not pay for that
for (let i = 0; i < BODIES; i++) {
  input.set(BODY);
  wasm.readBody(BODY.length, 2);
}
