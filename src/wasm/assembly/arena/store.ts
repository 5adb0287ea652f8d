/** Reads and writes of the arena by a single key. */
import { LABEL_AT } from '../../../hotels/entry-layout';
import { MAX_ENTRY_BYTES } from '../../constants';
import { entryKey, entryKeyLength, isValid, isValidAt } from '../entry';
import { hashOf } from '../hash';
import { INPUT, mainStart, smallStart } from '../layout';
import { claimMain, claimSmall, idHashOf, relieveIndex } from './eviction';
import { recall, remember } from './ghost';
import { entries, forget, linkAbsence, linkEntry, recordOf, unlink } from './links';
import {
  ABSENCE,
  ENTRY,
  frequencyOf,
  kindOf,
  labelOf,
  MAX_FREQUENCY,
  RECORD_HEADER_BYTES,
  setFrequency,
  sizeFor,
  sizeOf,
  storedAtOf,
  untilOf,
  writeHeader,
} from './record';

/** Results of a lookup beside a ref, which is a record's address in units of 8 bytes. */
export const MISS: u32 = 0;
export const ABSENT: u32 = 0xffffffff;

export let puts: u64 = 0;

/**
 * Returns the maximum length of an entry in bytes, 0 without a budget: one entry never evicts more than 1/8 of the small
 * ring. The output, where its narrow view is written, has more.
 */
export function maxEntryBytes(): u32 {
  if (mainStart <= smallStart) return 0;
  return min<u32>(<u32>((mainStart - smallStart) >> 3) - RECORD_HEADER_BYTES, MAX_ENTRY_BYTES);
}

/** Stores the entry at `entry`, an address outside the rings. */
export function putEntry(entry: usize, length: u32, nowMs: f64, untilMs: f64): bool {
  if (length > maxEntryBytes() || !isValid(entry, length)) return false;
  relieveIndex();
  const hash = idHashOf(entry);
  const size = sizeFor(length);
  let isForMain = false;
  let frequency: u8 = 0;
  let record: usize = 0;
  let capacity = size;
  const held = recordOf(<u32>(hash >> 32), 0, entryKey(entry, 0), entryKeyLength(entry, 0));
  if (held !== 0) {
    if (kindOf(held) === ENTRY) {
      if (labelOf(held) > load<f64>(entry, LABEL_AT)) return false;
      frequency = frequencyOf(held);
      isForMain = held >= mainStart;
      // a new state of almost the same size is written in place
      if (size <= sizeOf(held) && sizeOf(held) - size <= size >> 3) {
        record = held;
        capacity = sizeOf(held);
        unlink(held);
      }
    }
    if (record === 0) forget(held);
  } else if (recall(hash, entries)) {
    isForMain = true;
  }
  if (record === 0) record = isForMain ? claimMain(size) : claimSmall(size);
  writeHeader(record, capacity, ENTRY, frequency, nowMs, untilMs, length);
  memory.copy(record + RECORD_HEADER_BYTES, entry, length);
  linkEntry(record);
  puts++;
  return true;
}

/** Stores that a key is absent, and drops the record it led to. */
export function putAbsence(namespace: u32, key: usize, length: u32, nowMs: f64, untilMs: f64): void {
  relieveIndex();
  dropKey(namespace, key, length);
  const size = sizeFor(length);
  const record = claimSmall(size);
  writeHeader(record, size, ABSENCE, 0, nowMs, untilMs, length);
  memory.copy(record + RECORD_HEADER_BYTES, key, length);
  linkAbsence(record, namespace, <u32>(hashOf(namespace, key, length) >> 32));
}

/** Drops the record of a key, with all its keys. */
export function dropKey(namespace: u32, key: usize, length: u32): void {
  const record = recordOf(<u32>(hashOf(namespace, key, length) >> 32), namespace, key, length);
  if (record === 0) return;
  // a dropped record of the main ring leaves a ghost, because it was dropped for a change and not for disuse
  if (kindOf(record) === ENTRY && record >= mainStart) remember(idHashOf(record + RECORD_HEADER_BYTES));
  forget(record);
}

/** Returns the ref of a record, or ABSENT, or MISS if it is not valid now. */
export function refIfValid(record: usize, nowMs: f64, minStoredAtMs: f64, wallMs: f64): u32 {
  if (record === 0 || storedAtOf(record) < minStoredAtMs || untilOf(record) <= nowMs) return MISS;
  if (kindOf(record) === ABSENCE) return ABSENT;
  return isValidAt(record + RECORD_HEADER_BYTES, wallMs) ? <u32>(record >> 3) : MISS;
}

export function touch(record: usize): void {
  const frequency = frequencyOf(record);
  if (frequency < MAX_FREQUENCY) setFrequency(record, frequency + 1);
}

/** Returns the ref of the key of `length` bytes at INPUT, or ABSENT (-1), or MISS (0). */
export function find(namespace: u32, length: u32, nowMs: f64, minStoredAtMs: f64, wallMs: f64): i32 {
  const record = recordOf(<u32>(hashOf(namespace, INPUT, length) >> 32), namespace, INPUT, length);
  const found = refIfValid(record, nowMs, minStoredAtMs, wallMs);
  if (found !== MISS && found !== ABSENT) touch(record);
  return <i32>found;
}
