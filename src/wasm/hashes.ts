import { instantiateCache } from './cache.ts';
import { writeKey } from './key-bytes.ts';
import { HASH_SEED, PAGE_BYTES } from './load.ts';

/** Instance for hashes alone. Its memory ends behind the input. */
const { wasm, memory } = instantiateCache(PAGE_BYTES);
wasm.init(0, 0, ...HASH_SEED);
memory.grow(Math.ceil((wasm.INPUT.value + wasm.INPUT_BYTES.value) / PAGE_BYTES));
const bytes = Buffer.from(memory.buffer);
const input = wasm.INPUT.value;

/** Lower and upper half of the last hash of a key, each a u32. */
export const hash = new Uint32Array(memory.buffer, wasm.RESULT.value, 2);

/**
 * Writes the keyed hash (assembly/hash.ts) of a key in a namespace to `hash`. Returns false, without a hash, for what is no
 * key: see `writeKey`.
 */
export function hashKey(namespace: number, key: string): boolean {
  const length = writeKey(bytes, key, input);
  if (length > 0) wasm.hash(namespace, length);
  return length > 0;
}
