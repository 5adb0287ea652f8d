/**
 * Index of all keys: open addressing, linear probing, backward shift on removal (Knuth, TAOCP 3, 6.4, algorithm R), so
 * no slot is left marked as deleted. A slot is a u32 hash and the u32 record address in units of 8 bytes; 0 is empty. The home
 * of a slot is its hash scaled to the number of slots, so moving a slot needs no hashing.
 */
import { indexSlots, indexStart, SLOT_BYTES } from '../layout';
import { isLinkedBy } from './record';

export const NONE: u32 = 0xffffffff;
/** number of keys in the index */
let used: u32 = 0;

/** Returns the address of a slot. */
export function slotAt(slot: u32): usize {
  return indexStart + <usize>slot * SLOT_BYTES;
}

export function homeOf(hash: u32): u32 {
  return <u32>((<u64>hash * indexSlots) >> 32);
}

function after(slot: u32): u32 {
  return slot + 1 === indexSlots ? 0 : slot + 1;
}

/** Returns true if `more` keys would fill more than 7/8 of the slots: probe sequences get long beyond. */
export function isCrowded(more: u32): bool {
  return used + more > indexSlots - (indexSlots >> 3);
}

export function recordIn(slot: u32): usize {
  return (<usize>load<u32>(slotAt(slot), 4)) << 3;
}

/** Returns the first record with this hash, or 0. The caller compares the key. */
export function candidateOf(hash: u32): usize {
  let slot = homeOf(hash);
  while (true) {
    const held = load<u64>(slotAt(slot));
    if (held === 0 || <u32>held === hash) return (<usize>(held >> 32)) << 3;
    slot = after(slot);
  }
}

/** Returns the slot of a key, or NONE. */
export function slotOf(hash: u32, namespace: u32, key: usize, length: u32): u32 {
  let slot = homeOf(hash);
  while (true) {
    const held = load<u64>(slotAt(slot));
    if (held === 0) return NONE;
    if (<u32>held === hash && isLinkedBy((<usize>(held >> 32)) << 3, namespace, key, length)) return slot;
    slot = after(slot);
  }
}

/** Returns the slot with this hash and this record, which is linked by it. */
export function slotTo(hash: u32, record: usize): u32 {
  const pointing = <u64>hash | ((<u64>(record >> 3)) << 32);
  let slot = homeOf(hash);
  while (true) {
    const held = load<u64>(slotAt(slot));
    if (held === pointing) return slot;
    // it would be written at another place
    if (held === 0) unreachable();
    slot = after(slot);
  }
}

export function point(slot: u32, record: usize): void {
  store<u32>(slotAt(slot), <u32>(record >> 3), 4);
}

export function insert(hash: u32, record: usize): void {
  let slot = homeOf(hash);
  while (load<u64>(slotAt(slot)) !== 0) slot = after(slot);
  store<u32>(slotAt(slot), hash);
  store<u32>(slotAt(slot), <u32>(record >> 3), 4);
  used++;
}

export function remove(slot: u32): void {
  let hole = slot;
  let at = slot;
  while (true) {
    at = after(at);
    const held = load<u64>(slotAt(at));
    if (held === 0) break;
    if (distance(homeOf(<u32>held), at) >= distance(hole, at)) {
      store<u64>(slotAt(hole), held);
      hole = at;
    }
  }
  store<u64>(slotAt(hole), 0);
  used--;
}

function distance(from: u32, to: u32): u32 {
  return to >= from ? to - from : to + indexSlots - from;
}

export function clearIndex(): void {
  memory.fill(indexStart, 0, <usize>indexSlots * SLOT_BYTES);
  used = 0;
}
