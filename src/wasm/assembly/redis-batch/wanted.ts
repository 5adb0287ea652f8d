/**
 * What a batch wants: a table of records, 16 bytes each, and behind it the texts. Places are counted from the table,
 * so that it can be moved as it is.
 *
 *     0  u32  place of the key    4  u32  its length
 *     8  u32  place of the id    12  u32  its length, or GAP or NOTHING
 */
export const WANTED_BYTES: u32 = 16;
/** In the place of the id's length: Redis cannot tell, somebody else must be asked. */
export const GAP: u32 = 0xffffffff;
/** No hotel carries the key. */
export const NOTHING: u32 = 0xfffffffe;

export function keyOf(table: usize, i: u32): usize {
  return table + load<u32>(table + i * WANTED_BYTES);
}

export function keyLengthOf(table: usize, i: u32): u32 {
  return load<u32>(table + i * WANTED_BYTES, 4);
}

export function idOf(table: usize, i: u32): usize {
  return table + load<u32>(table + i * WANTED_BYTES, 8);
}

/** The length of the id, or GAP or NOTHING. */
export function idLengthOf(table: usize, i: u32): u32 {
  return load<u32>(table + i * WANTED_BYTES, 12);
}

export function setKey(table: usize, i: u32, place: u32, length: u32): void {
  store<u32>(table + i * WANTED_BYTES, place);
  store<u32>(table + i * WANTED_BYTES, length, 4);
  store<u32>(table + i * WANTED_BYTES, GAP, 12);
}

export function setId(table: usize, i: u32, place: u32, length: u32): void {
  store<u32>(table + i * WANTED_BYTES, place, 8);
  store<u32>(table + i * WANTED_BYTES, length, 12);
}
