import { openHashes } from '../wasm/cache.ts';
import { PAGE_BYTES } from '../wasm/load.ts';

const { wasm, memory } = openHashes();
const start = wasm.INPUT.value;
let bytes = new Uint8Array(memory.buffer);

/** Returns the lower half of the XXH64 (seed 0) of the bytes. */
export function checksum(checked: Uint8Array): number {
  const short = start + checked.length - bytes.length;
  if (short > 0) {
    memory.grow(Math.ceil(short / PAGE_BYTES));
    bytes = new Uint8Array(memory.buffer);
  }
  bytes.set(checked, start);
  return wasm.checksum(checked.length) >>> 0;
}
