/**
 * Table of a batch: records of 20 bytes, followed by the texts. Offsets count from the table, so it can be moved.
 *
 *     0  u32  offset of the key    4  u32  its length
 *     8  u32  offset of the id    12  u32  its length, or GAP or NO_HOTEL
 *    16  u32  offset in the local hits at which its body belongs; later that of a gap in the response, or of an entry with
 *             the length at 8
 *
 * Before the pointers arrive, every key is a GAP. The offset of the id is then 0, or that of a known id: a byte with its
 * length, followed by its text.
 */
import { GAP as GAP_MARK, NO_HOTEL as NO_HOTEL_MARK, PENDING_BYTES as RECORD_BYTES } from '../../constants';

export const PENDING_BYTES: u32 = RECORD_BYTES;
/** Marks, in the place of the id's length, a key that Redis does not resolve. */
export const GAP: u32 = GAP_MARK;
/** Marks a key of no hotel. All lengths are smaller than the marks. */
export const NO_HOTEL: u32 = NO_HOTEL_MARK;

export function keyOf(table: usize, i: u32): usize {
  return table + load<u32>(table + i * PENDING_BYTES);
}

export function keyLengthOf(table: usize, i: u32): u32 {
  return load<u32>(table + i * PENDING_BYTES, 4);
}

export function idOf(table: usize, i: u32): usize {
  return table + load<u32>(table + i * PENDING_BYTES, 8);
}

/** Returns the offset in the local hits at which the body of a key belongs. */
export function hitsPlaceOf(table: usize, i: u32): u32 {
  return load<u32>(table + i * PENDING_BYTES, 16);
}

/** Returns the length of the id, or GAP or NO_HOTEL. */
export function idLengthOf(table: usize, i: u32): u32 {
  return load<u32>(table + i * PENDING_BYTES, 12);
}

export function setKey(table: usize, i: u32, place: u32, length: u32, hitsPlace: u32): void {
  store<u32>(table + i * PENDING_BYTES, place);
  store<u32>(table + i * PENDING_BYTES, length, 4);
  store<u32>(table + i * PENDING_BYTES, 0, 8);
  store<u32>(table + i * PENDING_BYTES, GAP, 12);
  store<u32>(table + i * PENDING_BYTES, hitsPlace, 16);
}

/** Returns the address of the known id's length, 0 if the id is not known. */
export function knownIdOf(table: usize, i: u32): usize {
  const place = load<u32>(table + i * PENDING_BYTES, 8);
  return place === 0 ? 0 : table + place;
}

export function setKnownId(table: usize, i: u32, place: u32): void {
  store<u32>(table + i * PENDING_BYTES, place, 8);
}

export function setId(table: usize, i: u32, place: u32, length: u32): void {
  store<u32>(table + i * PENDING_BYTES, place, 8);
  store<u32>(table + i * PENDING_BYTES, length, 12);
}

/** Marks a key as a gap at an offset in the response. */
export function setGap(table: usize, i: u32, place: u32): void {
  store<u32>(table + i * PENDING_BYTES, GAP, 12);
  store<u32>(table + i * PENDING_BYTES, place, 16);
}

/** Notes the offset and the length of an entry in the response. */
export function setEntry(table: usize, i: u32, place: u32, length: u32): void {
  store<u32>(table + i * PENDING_BYTES, length, 8);
  store<u32>(table + i * PENDING_BYTES, place, 16);
}
