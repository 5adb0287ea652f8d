/**
 * A record is what a ring holds, at an address that 8 divides:
 *
 *     0  u32  size of the whole record in bytes
 *     4  u8   kind; where it is DEAD, nothing behind this byte counts
 *     5  u8   frequency: hits since it came into its ring, at most 3
 *     6  u8   links: bit n is set while the index leads here by the key of namespace n
 *     8  f64  stored at, epoch ms
 *    16  f64  soft until, epoch ms; of an absence: known until
 *    24  u32  stamp: the last batch that answered it
 *    28  u32  length of what follows
 *    32  the entry (its layout: entry-layout.ts), or the key that is absent
 */
import { MAX_KEY_BYTES } from './layout';

export const DEAD: u8 = 0;
export const ENTRY: u8 = 1;
export const ABSENCE: u8 = 2;
export const RECORD_HEADER_BYTES: u32 = 32;
const ENTRY_HEADER_BYTES: u32 = 80;
const PRESENT: u8 = 1;
export const MAX_FREQUENCY: u8 = 3;

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

export function softUntilOf(record: usize): f64 {
  return load<f64>(record, 16);
}

export function stampOf(record: usize): u32 {
  return load<u32>(record, 24);
}

export function lengthOf(record: usize): u32 {
  return load<u32>(record, 28);
}

export function versionOf(record: usize): f64 {
  return load<f64>(record, 40);
}

export function turnsAtOf(record: usize): f64 {
  return load<f64>(record, 48);
}

export function setFrequency(record: usize, frequency: u8): void {
  store<u8>(record, frequency, 5);
}

export function setLinks(record: usize, links: u32): void {
  store<u8>(record, <u8>links, 6);
}

export function setStamp(record: usize, stamp: u32): void {
  store<u32>(record, stamp, 24);
}

/** Makes room of `size` bytes a record that is skipped: what fills the end of a ring, or was dropped. */
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
  softUntilMs: f64,
  length: u32,
): void {
  store<u32>(record, size);
  store<u32>(record, <u32>kind | ((<u32>frequency) << 8), 4);
  store<f64>(record, storedAtMs, 8);
  store<f64>(record, softUntilMs, 16);
  store<u32>(record, 0, 24);
  store<u32>(record, length, 28);
}

export function bodyStartOf(record: usize): usize {
  return record + RECORD_HEADER_BYTES + lengthOf(record) - load<u32>(record, 88);
}

export function fullLengthOf(record: usize): u32 {
  return load<u32>(record, 88);
}

/** Length of the part of the body that both views have. */
export function sharedLengthOf(record: usize): u32 {
  return load<u32>(record, 92);
}

/** Length of an entry's key, 0 where it has none of that namespace. `entry` is the address of the entry itself. */
export function entryKeyLength(entry: usize, namespace: u32): u32 {
  if (namespace === 0) return load<u16>(entry, 70);
  if (namespace === 1) return load<u16>(entry, 72);
  return load<u8>(entry, 76);
}

export function entryKey(entry: usize, namespace: u32): usize {
  let key = entry + ENTRY_HEADER_BYTES;
  if (namespace > 0) key += load<u16>(entry, 70);
  if (namespace > 1) key += load<u16>(entry, 72);
  return key;
}

/** True when an entry is of a hotel that is present, its lengths agree and its keys can be held. */
export function isSound(entry: usize, length: u32): bool {
  if (length < ENTRY_HEADER_BYTES || (load<u8>(entry, 77) & PRESENT) === 0) return false;
  const idLength = entryKeyLength(entry, 0);
  const channelLength = entryKeyLength(entry, 1);
  if (idLength === 0 || idLength > MAX_KEY_BYTES || channelLength > MAX_KEY_BYTES) return false;
  const before: u64 =
    <u64>ENTRY_HEADER_BYTES + idLength + channelLength + load<u8>(entry, 76) + load<u16>(entry, 74);
  return before + load<u32>(entry, 56) === <u64>length && load<u32>(entry, 60) <= load<u32>(entry, 56);
}

/** True while the index leads to this record by this very key. */
export function answersTo(record: usize, namespace: u32, key: usize, length: u32): bool {
  if (((linksOf(record) >> namespace) & 1) === 0) return false;
  const content = record + RECORD_HEADER_BYTES;
  if (kindOf(record) === ABSENCE) return lengthOf(record) === length && isSame(content, key, length);
  return entryKeyLength(content, namespace) === length && isSame(entryKey(content, namespace), key, length);
}

export function isSame(a: usize, b: usize, length: u32): bool {
  if (length < 8) {
    for (let i: u32 = 0; i < length; i++) {
      if (load<u8>(a + i) !== load<u8>(b + i)) return false;
    }
    return true;
  }
  const last = length - 8;
  for (let i: u32 = 0; i < last; i += 8) {
    if (load<u64>(a + i) !== load<u64>(b + i)) return false;
  }
  return load<u64>(a + last) === load<u64>(b + last);
}
