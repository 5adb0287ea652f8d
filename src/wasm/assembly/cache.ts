/** The program of the caches: its calls for src/wasm/cache.ts. The caller first writes keys and bodies to INPUT. */
import { MAIN, openRing, SMALL } from './arena/eviction';
import { hashOf, seedHash } from './hash';
import { divide, INPUT, indexStart, mainEnd, mainStart, outputEnd, RESULT, smallStart } from './layout';

export { setMagic } from './arena/entry';
export { dropSince, evictions, hasRoomInMain as hasRoom } from './arena/eviction';
export { absences, entries } from './arena/index';
export { find, gather, hashId, hashKeys, narrow } from './arena/lookup';
export {
  clear,
  dropKey,
  findForm,
  maxEntryBytes,
  putAbsence,
  putEntry,
  putForm,
  puts,
} from './arena/store';
export { readBody, wrongIndex } from './batch-body/batch-body';
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

/** Divides the memory, and returns its length in bytes. It must be as long before the next call. */
export function init(maxBytes: u32, outputBytes: u32, a: u64, b: u64, c: u64, d: u64): usize {
  divide(maxBytes, outputBytes);
  seedHash(a, b, c, d);
  openRing(SMALL, smallStart, mainStart);
  openRing(MAIN, mainStart, mainEnd);
  return outputEnd;
}

/** Writes the keyed hash of the key of `length` bytes at INPUT to RESULT. */
export function hash(namespace: u32, length: u32): void {
  store<u64>(RESULT, hashOf(namespace, INPUT, length));
}

/** Returns the bytes of the budget that were ever written, output excluded. */
export function writtenBytes(): f64 {
  return <f64>(SMALL.peak + MAIN.peak - mainStart - indexStart);
}
