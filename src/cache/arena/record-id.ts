import { RECORD_HEADER_BYTES } from './tag.ts';

/** In an entry: entry-layout.ts. */
const ID_LENGTH_AT = 70;
const ID_AT = 80;

/** Set of ids in UTF-8. */
export interface Ids {
  hasBytes(bytes: Uint8Array, start: number, end: number): boolean;
}

/** Returns true if the id of the record at a ref is in the set. */
export function hasIdOf(bytes: Uint8Array, ref: number, ids: Ids): boolean {
  const entry = ref * 8 + RECORD_HEADER_BYTES;
  const length = bytes[entry + ID_LENGTH_AT]! | (bytes[entry + ID_LENGTH_AT + 1]! << 8);
  return ids.hasBytes(bytes, entry + ID_AT, entry + ID_AT + length);
}
