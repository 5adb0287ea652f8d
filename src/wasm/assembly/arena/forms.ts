/**
 * Compressed forms of entries. They are records of their own in the rings, so they count in the budget and are evicted
 * like hotels. A form is stored from the second request for any form of its entry on, and dropped with the entry. Behind the record header:
 * u32 key length, the key, the compressed bytes. An empty form states that compression does not pay.
 */

import { hashOf } from '../hash';
import { INPUT, outputStart } from '../layout';
import { claimSmall, relieveIndex } from './eviction';
import { HAS_FORMS, WAS_REQUESTED, writeFormKey } from './form-key';
import { forget, formOf, linkForm, recordOf } from './links';
import { FORM, FORMS, linksOf, RECORD_HEADER_BYTES, setLinks, sizeFor, writeHeader } from './record';
import { maxEntryBytes, touch } from './store';

/** Returns the ref of a compressed form of the entry at `ref`, or 0. */
export function findForm(ref: u32, form: u32): u32 {
  const held = formOf((<usize>ref) << 3, form, INPUT);
  if (held === 0) return 0;
  touch(held);
  return <u32>(held >> 3);
}

/** Stores the `length` bytes in the output as a form of the entry at `ref`, if a form of it was requested before. */
export function putForm(ref: u32, form: u32, length: u32): void {
  const record = (<usize>ref) << 3;
  if ((linksOf(record) & WAS_REQUESTED) === 0) {
    setLinks(record, linksOf(record) | WAS_REQUESTED);
    return;
  }
  const keyLength = writeFormKey(record, form, INPUT);
  const contentLength: u32 = 4 + keyLength + length;
  if (contentLength > maxEntryBytes()) return;
  const held = recordOf(<u32>(hashOf(FORMS, INPUT, keyLength) >> 32), FORMS, INPUT, keyLength);
  if (held !== 0) forget(held);
  setLinks(record, linksOf(record) | HAS_FORMS);
  relieveIndex();
  const size = sizeFor(contentLength);
  const target = claimSmall(size);
  writeHeader(target, size, FORM, 0, 0, 0, contentLength);
  const content = target + RECORD_HEADER_BYTES;
  store<u32>(content, keyLength);
  memory.copy(content + 4, INPUT, keyLength);
  memory.copy(content + 4 + keyLength, outputStart, length);
  linkForm(target);
}
