/** Exports of the program of the caches, for src/wasm/cache.ts. */
import { hashOf } from './hash';
import { INPUT, RESULT } from './layout';

export * from './arena/arena';
export { readBody, wrongIndex } from './batch-body/batch-body';
export { setMagic } from './entry';
export {
  COMMAND,
  ELEMENTS,
  GAPS,
  HASHES,
  INPUT,
  INPUT_BYTES,
  outputStart,
  PLACES,
  PREFIX,
  REPLY,
  REPLY_BYTES,
  RESPONSE,
  RESULT,
  SCRATCH,
  WINDOW,
} from './layout';
export { takeEntries } from './redis-batch/entries';
export { requestEntries, requestPointers } from './redis-batch/requests';

/** Writes the keyed hash of the key of `length` bytes at INPUT to RESULT. */
export function hash(namespace: u32, length: u32): void {
  store<u64>(RESULT, hashOf(namespace, INPUT, length));
}
