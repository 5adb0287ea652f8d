/** Calls for src/cache/arena/arena.ts. The caller first writes keys and bodies to INPUT, and an entry to the output. */
import { hashOf, seedHash } from '../hash';
import {
  divide,
  ELEMENT_BYTES,
  ELEMENTS,
  HASHES,
  INPUT,
  indexStart,
  mainEnd,
  mainStart,
  outputEnd,
  outputStart,
  RESULT,
  smallStart,
} from '../layout';
import { evictions, idHashOf } from './eviction';
import { clearIndex } from './index-table';
import { absences, entries, forgetCounts } from './links';
import { RECORD_HEADER_BYTES } from './record';
import { emptyRing, MAIN, openRing, SMALL } from './ring';
import { dropKey, putAbsence, putEntry, puts } from './store';

export { hasRoomInMain as hasRoom } from './eviction';
export { findForm, putForm } from './forms';
export { gather, narrow } from './gather';
export { dropSince } from './ring';
export { find, maxEntryBytes } from './store';

/** Divides the memory, and returns its length in bytes. It must be as long before the next call. */
export function init(maxBytes: u32, outputBytes: u32, a: u64, b: u64, c: u64, d: u64): usize {
  divide(maxBytes, outputBytes);
  seedHash(a, b, c, d);
  openRing(SMALL, smallStart, mainStart);
  openRing(MAIN, mainStart, mainEnd);
  return outputEnd;
}

export function put(length: u32, nowMs: f64, untilMs: f64): bool {
  return putEntry(outputStart, length, nowMs, untilMs);
}

export function putAbsent(namespace: u32, length: u32, nowMs: f64, untilMs: f64): void {
  putAbsence(namespace, INPUT, length, nowMs, untilMs);
}

export function drop(namespace: u32, length: u32): void {
  dropKey(namespace, INPUT, length);
}

/** Writes the hashes of the first `count` elements to HASHES. */
export function hashElements(count: u32, namespace: u32): void {
  for (let i: u32 = 0; i < count; i++) {
    const element = ELEMENTS + <usize>i * ELEMENT_BYTES;
    store<u64>(HASHES + 8 * <usize>i, hashOf(namespace, load<u32>(element), load<u32>(element, 4)));
  }
}

/** Writes the hash of the id of the entry at `ref` to RESULT. */
export function hashId(ref: u32): void {
  store<u64>(RESULT, idHashOf(((<usize>ref) << 3) + RECORD_HEADER_BYTES));
}

export function clear(): void {
  clearIndex();
  forgetCounts();
  emptyRing(SMALL);
  emptyRing(MAIN);
}

/**
 * Writes the fields of ArenaStats except `maxBytes` to RESULT, as f64. `bytes` is all that was ever written, without the
 * output.
 */
export function stats(): void {
  store<f64>(RESULT, entries);
  store<f64>(RESULT, absences, 8);
  store<f64>(RESULT, <f64>(SMALL.peak + MAIN.peak - mainStart - indexStart), 16);
  store<f64>(RESULT, <f64>evictions, 24);
  store<f64>(RESULT, <f64>puts, 32);
}
