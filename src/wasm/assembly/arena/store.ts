/** What the arena holds, one key at a time. */
import { entryKey, entryKeyLength, isValid, VERSION_AT } from '../entry';
import { claimMain, claimSmall, idHashOf, relieveIndex } from './eviction';
import { recall, remember } from './ghost';
import { hashOf } from './hash';
import { mainStart, smallStart } from './layout';
import { entries, forget, linkAbsence, linkEntry, recordOf, unlink } from './links';
import {
  ABSENCE,
  ENTRY,
  frequencyOf,
  kindOf,
  MAX_FREQUENCY,
  RECORD_HEADER_BYTES,
  setFrequency,
  sizeFor,
  sizeOf,
  softUntilOf,
  storedAtOf,
  validUntilOf,
  versionOf,
  writeHeader,
} from './record';

/** What a look-up yields beside the ref of a hit. A ref is a record's address in units of 8 bytes. */
export const MISS: u32 = 0;
export const ABSENT: u32 = 0xffffffff;

export let puts: u64 = 0;
export let rejected: u64 = 0;

/** The longest entry that is held: one alone never pushes out more than an eighth of the small ring. */
export function maxEntryBytes(): u32 {
  return <u32>((mainStart - smallStart) >> 3) - RECORD_HEADER_BYTES;
}

/** Stores the entry that stands at `entry`, which lies in no ring. */
export function putEntry(entry: usize, length: u32, nowMs: f64, softUntilMs: f64, isFromRedis: bool): bool {
  if (length > maxEntryBytes() || !isValid(entry, length)) {
    rejected++;
    return false;
  }
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
      if (versionOf(held) > load<f64>(entry, VERSION_AT)) {
        rejected++;
        return false;
      }
      frequency = frequencyOf(held);
      isForMain = held >= mainStart;
      // A refresh mostly brings as many bytes as before: they take the old place, and the rings stay as they are.
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
  writeHeader(record, capacity, ENTRY, frequency, isFromRedis, nowMs, softUntilMs, length);
  memory.copy(record + RECORD_HEADER_BYTES, entry, length);
  linkEntry(record);
  puts++;
  return true;
}

/** Remembers that a key is absent; whatever it led to is forgotten. */
export function putAbsence(
  namespace: u32,
  key: usize,
  length: u32,
  nowMs: f64,
  untilMs: f64,
  isFromRedis: bool,
): void {
  relieveIndex();
  dropKey(namespace, key, length);
  const size = sizeFor(length);
  const record = claimSmall(size);
  writeHeader(record, size, ABSENCE, 0, isFromRedis, nowMs, untilMs, length);
  memory.copy(record + RECORD_HEADER_BYTES, key, length);
  linkAbsence(record, namespace, <u32>(hashOf(namespace, key, length) >> 32));
}

export function dropKey(namespace: u32, key: usize, length: u32): void {
  const record = recordOf(<u32>(hashOf(namespace, key, length) >> 32), namespace, key, length);
  if (record === 0) return;
  // What earned the main ring comes back to it: it is dropped because it changed, not for want of use.
  if (kindOf(record) === ENTRY && record >= mainStart) remember(idHashOf(record + RECORD_HEADER_BYTES));
  forget(record);
}

/** What a record is worth to one who asks now: its ref, ABSENT or MISS. */
export function judge(record: usize, nowMs: f64, minStoredAtMs: f64, wallMs: f64): u32 {
  if (record === 0 || storedAtOf(record) < minStoredAtMs) return MISS;
  if (kindOf(record) === ABSENCE) return softUntilOf(record) > nowMs ? ABSENT : MISS;
  return validUntilOf(record) > wallMs ? <u32>(record >> 3) : MISS;
}

export function touch(record: usize): void {
  const frequency = frequencyOf(record);
  if (frequency < MAX_FREQUENCY) setFrequency(record, frequency + 1);
}

export function findKey(
  namespace: u32,
  key: usize,
  length: u32,
  nowMs: f64,
  minStoredAtMs: f64,
  wallMs: f64,
): u32 {
  const record = recordOf(<u32>(hashOf(namespace, key, length) >> 32), namespace, key, length);
  const found = judge(record, nowMs, minStoredAtMs, wallMs);
  if (found !== MISS && found !== ABSENT) touch(record);
  return found;
}
