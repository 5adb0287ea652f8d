/** Sample of the ids in use, which a worker saves for those that start. */
import { entryKey, entryKeyLength } from '../entry';
import { indexSlots, outputEnd, outputStart } from '../layout';
import { idHashOf } from './eviction';
import { recordIn, slotAt } from './index-table';
import { ENTRY, frequencyOf, kindOf, RECORD_HEADER_BYTES } from './record';

/** Hits and length before each id. */
const HEAD_BYTES: u32 = 2;

/**
 * Writes the ids of entries with hits to the output, of at most `count` slots from `slot` on: u8 hits, u8 length, id.
 * Returns the number of bytes.
 */
export function writeHotIds(slot: u32, count: u32): u32 {
  let to = outputStart;
  const end = min(slot + count, indexSlots);
  for (; slot < end; slot++) {
    const record = recordIn(slot);
    if (record === 0 || kindOf(record) !== ENTRY || frequencyOf(record) === 0) continue;
    const entry = record + RECORD_HEADER_BYTES;
    // an entry has up to three slots
    if (<u32>(idHashOf(entry) >> 32) !== load<u32>(slotAt(slot))) continue;
    const length = entryKeyLength(entry, 0);
    // it has a byte for its length
    if (length > 255) continue;
    if (to + HEAD_BYTES + length > outputEnd) break;
    store<u8>(to, frequencyOf(record));
    store<u8>(to, <u8>length, 1);
    memory.copy(to + HEAD_BYTES, entryKey(entry, 0), length);
    to += HEAD_BYTES + length;
  }
  return <u32>(to - outputStart);
}
