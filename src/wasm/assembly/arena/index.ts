/**
 * Index of all keys: which keys lead to a record. Open addressing, linear probing, backward shift on removal (Knuth, TAOCP 3,
 * 6.4, algorithm R), so no slot is left marked as deleted. A slot is a u32 hash and the u32 record address in units of 8 bytes; 0
 * is empty. The home of a slot is its hash scaled to the number of slots, so moving a slot needs no hashing.
 */
import { hashOf } from '../hash';
import { ghostStart, indexSlots, indexStart, SLOT_BYTES } from '../layout';
import {
  ABSENCE,
  ENTRY,
  FORMS,
  isLinkedBy,
  keyLengthOf,
  keyOf,
  kindOf,
  labelOf,
  linksOf,
  markDead,
  setLinks,
  sizeOf,
} from './record';

/** number of keys in the index */
let used: u32 = 0;
export let entries: u32 = 0;
export let absences: u32 = 0;

/** Returns the address of the slot where the search for a hash begins. */
export function homeAt(hash: u32): usize {
  return indexStart + <usize>((<u64>hash * indexSlots) >> 32) * SLOT_BYTES;
}

/** Returns the address of the slot behind this one; the ghosts follow the last. */
function after(slot: usize): usize {
  return slot + SLOT_BYTES === ghostStart ? indexStart : slot + SLOT_BYTES;
}

/** Returns true if `more` keys would fill more than 7/8 of the slots: probe sequences get long beyond. */
export function isCrowded(more: u32): bool {
  return used + more > indexSlots - (indexSlots >> 3);
}

function recordIn(slot: usize): usize {
  return (<usize>load<u32>(slot, 4)) << 3;
}

/** Returns the first record with this hash, or 0. The caller compares the key. */
export function candidateOf(hash: u32): usize {
  let slot = homeAt(hash);
  while (true) {
    const held = load<u64>(slot);
    if (held === 0 || <u32>held === hash) return (<usize>(held >> 32)) << 3;
    slot = after(slot);
  }
}

/** Returns the slot of a key, or the empty one in its place, where the record is 0. */
function slotOf(hash: u32, namespace: u32, key: usize, length: u32): usize {
  let slot = homeAt(hash);
  while (true) {
    const held = load<u64>(slot);
    if (held === 0) return slot;
    if (<u32>held === hash && isLinkedBy((<usize>(held >> 32)) << 3, namespace, key, length)) return slot;
    slot = after(slot);
  }
}

/** Returns the record of a key, or 0. */
export function recordOf(hash: u32, namespace: u32, key: usize, length: u32): usize {
  return recordIn(slotOf(hash, namespace, key, length));
}

/** Returns the slot through which a key of this record leads to the record at `to`. */
function slotOfLink(record: usize, namespace: u32, to: usize): usize {
  const hash = hashOfKey(record, namespace);
  const pointing = <u64>hash | ((<u64>(to >> 3)) << 32);
  let slot = homeAt(hash);
  while (true) {
    const held = load<u64>(slot);
    if (held === pointing) return slot;
    // it would be written at another place
    if (held === 0) unreachable();
    slot = after(slot);
  }
}

function hashOfKey(record: usize, namespace: u32): u32 {
  return <u32>(hashOf(namespace, keyOf(record, namespace), keyLengthOf(record, namespace)) >> 32);
}

/** Lets a slot, which may be empty, lead to a record by a hash. */
function point(slot: usize, hash: u32, record: usize): void {
  if (recordIn(slot) === 0) used++;
  store<u32>(slot, hash);
  store<u32>(slot, <u32>(record >> 3), 4);
}

function remove(slot: usize): void {
  let hole = slot;
  let at = slot;
  while (true) {
    at = after(at);
    const held = load<u64>(at);
    if (held === 0) break;
    if (distance(homeAt(<u32>held), at) >= distance(hole, at)) {
      store<u64>(hole, held);
      hole = at;
    }
  }
  store<u64>(hole, 0);
  used--;
}

function distance(from: usize, to: usize): usize {
  return to >= from ? to - from : to - indexStart + (ghostStart - from);
}

/** Links the one key of an absence, or of a compressed form, that was just written. It must not be linked. */
export function linkKey(record: usize, namespace: u32): void {
  const hash = hashOfKey(record, namespace);
  setLinks(record, 1 << namespace);
  point(slotOf(hash, namespace, keyOf(record, namespace), keyLengthOf(record, namespace)), hash, record);
  if (kindOf(record) === ABSENCE) absences++;
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
    const hash = hashOfKey(record, namespace);
    const slot = slotOf(hash, namespace, keyOf(record, namespace), length);
    const holder = recordIn(slot);
    if (holder !== 0) {
      if (kindOf(holder) === ABSENCE) {
        markDead(holder, sizeOf(holder));
        absences--;
      } else {
        if (labelOf(holder) > labelOf(record)) continue;
        setLinks(holder, linksOf(holder) & ~(1 << namespace));
      }
    }
    point(slot, hash, record);
    links |= 1 << namespace;
  }
  setLinks(record, links);
  entries++;
}

/** Unlinks all keys of a record. Its bytes stay unchanged. */
export function unlink(record: usize): void {
  const links = linksOf(record);
  for (let namespace: u32 = 0; namespace <= FORMS; namespace++) {
    if ((links >> namespace) & 1) remove(slotOfLink(record, namespace, record));
  }
  const kind = kindOf(record);
  if (kind === ABSENCE) absences--;
  else if (kind === ENTRY) entries--;
}

/** Links the keys of the record at `from` to its copy at `to`. */
export function relink(from: usize, to: usize): void {
  const links = linksOf(to);
  for (let namespace: u32 = 0; namespace <= FORMS; namespace++) {
    if ((links >> namespace) & 1) store<u32>(slotOfLink(to, namespace, from), <u32>(to >> 3), 4);
  }
}

/** Unlinks a record and leaves its bytes as a dead one. */
export function forget(record: usize): void {
  unlink(record);
  markDead(record, sizeOf(record));
}

export function clearIndex(): void {
  memory.fill(indexStart, 0, <usize>indexSlots * SLOT_BYTES);
  used = 0;
  entries = 0;
  absences = 0;
}
