/**
 * Record of a ring, at an address divisible by 8, and the entry in it:
 *
 *     0  u32  size of the whole record in bytes
 *     4  u8   kind; if DEAD, the bytes behind it have no meaning
 *     5  u8   frequency: hits, at most 3; a reinsertion into the main ring takes one
 *     6  u8   links: bit n is set while the index holds its key of namespace n
 *     7  u8   0
 *     8  f64  time of storing, monotonic ms
 *    16  f64  expiry, monotonic ms
 *
 *    24  u32  stamp: the last batch that included it
 *    28  u32  length of the rest in bytes
 *    32  the entry (layout: hotels/entry-layout.ts), or the absent key, or a compressed form (store.ts)
 */
import { BODY_LENGTH_AT, LABEL_AT, SHARED_LENGTH_AT } from '../../../hotels/entry-layout';
import { RECORD_HEADER_BYTES as ENTRY_AT } from '../../constants';
import * as fields from '../../fields';
import { bodyOf, entryKey, entryKeyLength, isSame } from './entry';

export const DEAD: u8 = 0;
export const ENTRY: u8 = 1;
export const ABSENCE: u8 = 2;
export const FORM: u8 = 3;
/** Namespace of the keys of compressed forms, behind those of hotels. In the window it is that of API keys. */
export const FORMS: u32 = 3;
export const RECORD_HEADER_BYTES: u32 = ENTRY_AT;
const MAX_FREQUENCY: u8 = 3;

export function sizeFor(length: u32): u32 {
  return (RECORD_HEADER_BYTES + length + 7) & ~7;
}

export function sizeOf(record: usize): u32 {
  return load<u32>(record);
}

export function kindOf(record: usize): u8 {
  return load<u8>(record, 4);
}

export function frequencyOf(record: usize): u8 {
  return load<u8>(record, 5);
}

export function linksOf(record: usize): u32 {
  return load<u8>(record, 6);
}

export function storedAtOf(record: usize): f64 {
  return load<f64>(record, 8);
}

export function stampOf(record: usize): u32 {
  return load<u32>(record, 24);
}

export function lengthOf(record: usize): u32 {
  return load<u32>(record, fields.RECORD_LENGTH);
}

export function labelOf(record: usize): f64 {
  return load<f64>(record + ENTRY_AT, LABEL_AT);
}

export function setFrequency(record: usize, frequency: u8): void {
  store<u8>(record, frequency, 5);
}

/** Counts a hit. */
export function touch(record: usize): void {
  const frequency = frequencyOf(record);
  if (frequency < MAX_FREQUENCY) setFrequency(record, frequency + 1);
}

export function setLinks(record: usize, links: u32): void {
  store<u8>(record, <u8>links, 6);
}

export function setStamp(record: usize, stamp: u32): void {
  store<u32>(record, stamp, 24);
}

/** Makes the `size` bytes a dead record, which is skipped: the filler at a ring's end, or a dropped record. */
export function markDead(record: usize, size: u32): void {
  store<u32>(record, size);
  store<u8>(record, DEAD, 4);
}

export function writeHeader(
  record: usize,
  size: u32,
  kind: u8,
  frequency: u8,
  storedAtMs: f64,
  untilMs: f64,
  length: u32,
): void {
  store<u32>(record, size);
  store<u32>(record, <u32>kind | ((<u32>frequency) << 8), 4);
  store<f64>(record, storedAtMs, 8);
  store<f64>(record, untilMs, 16);
  store<u32>(record, 0, 24);
  store<u32>(record, length, fields.RECORD_LENGTH);
}

/** Returns true if the record was stored at `minStoredAtMs` or later, and has not expired at `nowMs`. */
export function isCurrent(record: usize, nowMs: f64, minStoredAtMs: f64): bool {
  return storedAtOf(record) >= minStoredAtMs && load<f64>(record, 16) > nowMs;
}

export function bodyStartOf(record: usize): usize {
  return bodyOf(record + RECORD_HEADER_BYTES, lengthOf(record));
}

export function fullLengthOf(record: usize): u32 {
  return load<u32>(record + ENTRY_AT, BODY_LENGTH_AT);
}

/** Returns the length of the part of the body that both views share. */
export function sharedLengthOf(record: usize): u32 {
  return load<u32>(record + ENTRY_AT, SHARED_LENGTH_AT);
}

export function keyOf(record: usize, namespace: u32): usize {
  const content = record + RECORD_HEADER_BYTES;
  if (namespace === FORMS) return content + 4;
  return kindOf(record) === ABSENCE ? content : entryKey(content, namespace);
}

export function keyLengthOf(record: usize, namespace: u32): u32 {
  if (namespace === FORMS) return load<u32>(record + RECORD_HEADER_BYTES);
  return kindOf(record) === ABSENCE
    ? lengthOf(record)
    : entryKeyLength(record + RECORD_HEADER_BYTES, namespace);
}

/** Returns true if the record is linked by this key. */
export function isLinkedBy(record: usize, namespace: u32, key: usize, length: u32): bool {
  if (((linksOf(record) >> namespace) & 1) === 0) return false;
  return keyLengthOf(record, namespace) === length && isSame(keyOf(record, namespace), key, length);
}
