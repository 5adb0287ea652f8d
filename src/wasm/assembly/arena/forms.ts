/**
 * Compressed forms of entries. They are records of their own in the rings, so they count in the budget and are evicted
 * like hotels. Behind the record header: u32 key length, the key, the compressed bytes. An empty form states that compression
 * does not pay.
 *
 * The key is the number of the form, then the bytes of the entry from the tags to the end of the id. Tags differ where the
 * bytes of a view differ. A changed hotel has other tags, so an outdated form is never found, and is evicted unused.
 */

import { HEADER_BYTES, NARROW_TAG_AT } from '../../../hotels/entry-layout';
import { hashOf } from '../hash';
import { INPUT, outputStart } from '../layout';
import { entryKeyLength } from './entry';
import { claimSmall, relieveIndex } from './eviction';
import { forget, linkKey, recordOf } from './index';
import { FORM, FORMS, RECORD_HEADER_BYTES, sizeFor, touch, writeHeader } from './record';
import { maxEntryBytes } from './store';

const FORM_NUMBER_BYTES: u32 = 8;

/** Writes the key of a form of an entry's record to INPUT; returns its length in bytes. */
function writeKey(record: usize, form: u32): u32 {
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
  const held = formAt(writeKey((<usize>ref) << 3, form));
  if (held === 0) return 0;
  touch(held);
  return <u32>(held >> 3);
}

/** Stores the `length` bytes in the output as a form of the entry at `ref`. */
export function putForm(ref: u32, form: u32, length: u32): void {
  const keyLength = writeKey((<usize>ref) << 3, form);
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
