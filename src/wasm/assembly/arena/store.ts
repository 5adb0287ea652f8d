/** Writes of the arena: entries, absences, and what drops them. */
import { LABEL_AT } from '../../../hotels/entry-layout';
import { MAX_ENTRY_BYTES } from '../../constants';
import { hashOf } from '../hash';
import { mainStart, smallStart } from '../layout';
import { entryKey, entryKeyLength, idHashOf, isValid } from './entry';
import { claimMain, claimSmall, recall, relieveIndex, remember } from './eviction';
import { clearIndex, forget, linkEntry, linkKey, recordOf, unlink } from './index';
import {
  ABSENCE,
  ENTRY,
  frequencyOf,
  kindOf,
  labelOf,
  RECORD_HEADER_BYTES,
  sizeFor,
  sizeOf,
  writeHeader,
} from './record';
import { emptyRing, MAIN, SMALL } from './ring';

export let puts: f64 = 0;

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
  } else isForMain = recall(hash);
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
  linkKey(record, namespace);
}

/** Drops the record of a key, with all its keys. */
export function dropKey(namespace: u32, key: usize, length: u32): void {
  const record = recordOf(<u32>(hashOf(namespace, key, length) >> 32), namespace, key, length);
  if (record === 0) return;
  // a dropped record of the main ring leaves a ghost, because it was dropped for a change and not for disuse
  if (kindOf(record) === ENTRY && record >= mainStart) remember(record);
  forget(record);
}

/** Drops everything. */
export function clear(): void {
  clearIndex();
  emptyRing(SMALL);
  emptyRing(MAIN);
}
