/**
 * Compressed forms of entries: records of their own in the rings, so the budget counts them and eviction treats them as
 * it treats hotels. A form is made at its entry's second demand, and dropped with its entry. Behind the header of
 * its record stand u32 key length, the key, and the compressed bytes; no bytes at all say that compressing does not pay.
 */
import { claimSmall, relieveIndex } from './eviction';
import { HAS_FORMS, WAS_ASKED, writeFormKey } from './form-key';
import { hashOf } from './hash';
import { INPUT, outputStart } from './layout';
import { forget, formOf, linkForm, recordOf } from './links';
import { FORM, FORMS, linksOf, RECORD_HEADER_BYTES, setLinks, sizeFor, writeHeader } from './record';
import { maxEntryBytes, touch } from './store';

/** The ref of a form, or 0. */
export function findFormOf(record: usize, form: u32): u32 {
  const held = formOf(record, form, INPUT);
  if (held === 0) return 0;
  touch(held);
  return <u32>(held >> 3);
}

/** Stores the `length` bytes at the output as a form of an entry's record, if a form of it was asked for before. */
export function putFormOf(record: usize, form: u32, length: u32): void {
  if ((linksOf(record) & WAS_ASKED) === 0) {
    setLinks(record, linksOf(record) | WAS_ASKED);
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
  writeHeader(target, size, FORM, 0, false, 0, 0, contentLength);
  const content = target + RECORD_HEADER_BYTES;
  store<u32>(content, keyLength);
  memory.copy(content + 4, INPUT, keyLength);
  memory.copy(content + 4 + keyLength, outputStart, length);
  linkForm(target);
}
