/** Exports for src/cache/redis-batch/redis-batch.ts and src/hotels/checksum.ts. */

import { seedHash } from '../hash';
import { REPLY } from './layout';
import { xxh64 } from './xxh64';

export { ELEMENTS, GAPS, INPUT, INPUT_BYTES, RESULT } from '../arena/layout';
export {
  COMMAND,
  HITS,
  HITS_BYTES,
  OUTPUT,
  PLACES,
  POINTERS,
  POINTERS_BYTES,
  PREFIX,
  REPLY,
  SCRATCH,
  STREAMED,
  WINDOW,
  WINDOW_BUCKETS,
} from './layout';
export { requestEntries, requestPointers, requestPointersOfElements } from './requests';
export { beginStream, chunkStart, takeChunk } from './stream';

export function init(a: u64, b: u64, c: u64, d: u64): void {
  seedHash(a, b, c, d);
}

/** Returns the lower half of the hash of `length` bytes at REPLY. */
export function checksum(length: u32): u32 {
  return <u32>xxh64(REPLY, length);
}
