/**
 * Writes of the arena: entries, absences, and what drops them; and compressed forms of entries. Forms are records of their own
 * in the rings, so they count in the budget and are evicted like hotels. Behind the record header: u32 key length, the key, the
 * compressed bytes. An empty form states that compression does not pay.
 *
 * The key is the number of the form, then the bytes of the entry from the tags to the end of the id. Tags differ where the
 * bytes of a view differ. A changed hotel has other tags, so an outdated form is never found, and is evicted unused.
 */
import { HEADER_BYTES, LABEL_AT, NARROW_TAG_AT } from '../../../hotels/entry-layout';
import { MAX_ENTRY_BYTES } from '../../constants';
import { hashOf } from '../hash';
import { INPUT, mainStart, outputStart, smallStart } from '../layout';
import { entryKey, entryKeyLength, idHashOf, isValid } from './entry';
import { claimMain, claimSmall, emptyRing, MAIN, recall, relieveIndex, remember, SMALL } from './eviction';
import { clearIndex, forget, linkEntry, linkKey, recordOf, unlink } from './index';
import {
  ABSENCE,
  ENTRY,
  FORM,
  FORMS,
  frequencyOf,
  kindOf,
  labelOf,
  RECORD_HEADER_BYTES,
  sizeFor,
  sizeOf,
  touch,
  writeHeader,
} from './record';

const FORM_NUMBER_BYTES: u32 = 8;

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

/** Writes the key of a form of an entry's record to INPUT; returns its length in bytes. */
function writeFormKey(record: usize, form: u32): u32 {
  const entry = record + RECORD_HEADER_BYTES;
  const length = HEADER_BYTES - <u32>NARROW_TAG_AT + entryKeyLength(entry, 0);
  store<u64>(INPUT, form);
  memory.copy(INPUT + FORM_NUMBER_BYTES, entry + NARROW_TAG_AT, length);
  return FORM_NUMBER_BYTES + length;
}

/** Returns the form whose key is at INPUT, or 0. */
function formAt(keyLength: u32): usize {
  return recordOf(<u32>(hashOf(FORMS, INPUT, keyLength) >> 32), FORMS, INPUT, keyLength);
}

/** Returns the ref of a compressed form of the entry at `ref`, or 0. */
export function findForm(ref: u32, form: u32): u32 {
  const held = formAt(writeFormKey((<usize>ref) << 3, form));
  if (held === 0) return 0;
  touch(held);
  return <u32>(held >> 3);
}

/** Stores the `length` bytes in the output as a form of the entry at `ref`. */
export function putForm(ref: u32, form: u32, length: u32): void {
  const keyLength = writeFormKey((<usize>ref) << 3, form);
  const contentLength: u32 = 4 + keyLength + length;
  if (contentLength > maxEntryBytes()) return;
  const held = formAt(keyLength);
  if (held !== 0) forget(held);
  relieveIndex();
  const size = sizeFor(contentLength);
  const target = claimSmall(size);
  writeHeader(target, size, FORM, 0, 0, 0, contentLength);
  const content = target + RECORD_HEADER_BYTES;
  store<u32>(content, keyLength);
  memory.copy(content + 4, INPUT, keyLength);
  memory.copy(content + 4 + keyLength, outputStart, length);
  linkKey(target, FORMS);
}

/** Drops everything. */
export function clear(): void {
  clearIndex();
  emptyRing(SMALL);
  emptyRing(MAIN);
}
