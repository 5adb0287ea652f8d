/**
 * Key of a compressed form: its number, then the bytes of its entry from the tags to the end of the id. Tags differ where
 * the bytes of a view differ. A changed or refreshed hotel has other tags, so an outdated form is never found.
 */
import { HEADER_BYTES, NARROW_TAG_AT } from '../../../hotels/entry-layout';
import { entryKeyLength } from '../entry';
import { RECORD_HEADER_BYTES } from './record';

/** Three content codings of two views. */
export const FORM_COUNT: u32 = 6;
/** Flag of an entry's record: a compressed form was requested. */
export const WAS_REQUESTED: u32 = 0x40;
export const HAS_FORMS: u32 = 0x80;
const NUMBER_BYTES: u32 = 8;

/** Writes the key of a form of an entry's record; returns its length in bytes. */
export function writeFormKey(record: usize, form: u32, key: usize): u32 {
  const entry = record + RECORD_HEADER_BYTES;
  const length = HEADER_BYTES - <u32>NARROW_TAG_AT + entryKeyLength(entry, 0);
  store<u64>(key, form);
  memory.copy(key + NUMBER_BYTES, entry + NARROW_TAG_AT, length);
  return NUMBER_BYTES + length;
}
