/** Links between the index and the records: which keys lead to a record. */
import { entryKey, entryKeyLength } from '../entry';
import { hashOf } from '../hash';
import { insert, NONE, point, recordIn, remove, slotOf, slotTo } from './index-table';
import {
  ABSENCE,
  FORM,
  FORMS,
  kindOf,
  labelOf,
  lengthOf,
  linksOf,
  markDead,
  RECORD_HEADER_BYTES,
  setLinks,
  sizeOf,
} from './record';

export let entries: u32 = 0;
export let absences: u32 = 0;

function keyOf(record: usize, namespace: u32): usize {
  const content = record + RECORD_HEADER_BYTES;
  if (namespace === FORMS) return content + 4;
  return kindOf(record) === ABSENCE ? content : entryKey(content, namespace);
}

function keyLengthOf(record: usize, namespace: u32): u32 {
  if (namespace === FORMS) return load<u32>(record + RECORD_HEADER_BYTES);
  if (kindOf(record) === ABSENCE) return lengthOf(record);
  return entryKeyLength(record + RECORD_HEADER_BYTES, namespace);
}

function hashOfKey(record: usize, namespace: u32): u32 {
  return <u32>(hashOf(namespace, keyOf(record, namespace), keyLengthOf(record, namespace)) >> 32);
}

/** Returns the record of a key, or 0. */
export function recordOf(hash: u32, namespace: u32, key: usize, length: u32): usize {
  const slot = slotOf(hash, namespace, key, length);
  return slot === NONE ? 0 : recordIn(slot);
}

/** Links a key to an absence that was just written. The key must not be linked. */
export function linkAbsence(record: usize, namespace: u32, hash: u32): void {
  setLinks(record, 1 << namespace);
  insert(hash, record);
  absences++;
}

/**
 * Links the keys of an entry that was just written. Its id must not be linked. A channel or registry id that another
 * entry holds goes to the larger label: an id has one owner at a time, so the entry that was read earlier is outdated.
 */
export function linkEntry(record: usize): void {
  let links: u32 = 0;
  for (let namespace: u32 = 0; namespace < 3; namespace++) {
    const length = keyLengthOf(record, namespace);
    if (length === 0) continue;
    const key = keyOf(record, namespace);
    const hash = <u32>(hashOf(namespace, key, length) >> 32);
    const slot = slotOf(hash, namespace, key, length);
    if (slot !== NONE) {
      const holder = recordIn(slot);
      if (kindOf(holder) === ABSENCE) {
        markDead(holder, sizeOf(holder));
        absences--;
      } else {
        if (labelOf(holder) > labelOf(record)) continue;
        setLinks(holder, linksOf(holder) & ~(1 << namespace));
      }
      point(slot, record);
    } else {
      insert(hash, record);
    }
    links |= 1 << namespace;
  }
  setLinks(record, links);
  entries++;
}

/** Unlinks all keys of a record. Its bytes stay unchanged. */
export function unlink(record: usize): void {
  const links = linksOf(record);
  for (let namespace: u32 = 0; namespace <= FORMS; namespace++) {
    if ((links >> namespace) & 1) remove(slotTo(hashOfKey(record, namespace), record));
  }
  const kind = kindOf(record);
  if (kind === ABSENCE) absences--;
  else if (kind !== FORM) entries--;
}

/** Links the keys of the record at `from` to its copy at `to`. */
export function relink(from: usize, to: usize): void {
  const links = linksOf(to);
  for (let namespace: u32 = 0; namespace <= FORMS; namespace++) {
    if ((links >> namespace) & 1) point(slotTo(hashOfKey(to, namespace), from), to);
  }
}

/** Unlinks a record and leaves its bytes as a dead one. */
export function forget(record: usize): void {
  unlink(record);
  markDead(record, sizeOf(record));
}

/** Links the key of a compressed form that was just written. The key must not be linked. */
export function linkForm(record: usize): void {
  setLinks(record, 1 << FORMS);
  insert(hashOfKey(record, FORMS), record);
}

export function forgetCounts(): void {
  entries = 0;
  absences = 0;
}
