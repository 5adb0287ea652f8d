/**
 * Recent changes and their versions, in a current and a previous table that are swapped. A slot is the u64 hash of a
 * name and the f64 version; open addressing, linear probing. A hash collision or a full table only makes unchanged
 * names count as changed.
 */
import { hashOf } from '../hash';
import { CHANGES, CHANGES_SLOTS } from './layout';

const SLOT_BYTES: usize = 16;
const TABLE_BYTES: usize = <usize>CHANGES_SLOTS * SLOT_BYTES;
const MAX_NAMES: u32 = CHANGES_SLOTS - (CHANGES_SLOTS >> 2);

let current: usize = CHANGES;
let previous: usize = CHANGES + TABLE_BYTES;
let inCurrent: u32 = 0;
let inPrevious: u32 = 0;

/** Returns the slot of a hash, or the empty slot where it belongs. */
function slotOf(table: usize, hash: u64): usize {
  let slot = <u32>(hash >> 32) & (CHANGES_SLOTS - 1);
  while (true) {
    const at = table + <usize>slot * SLOT_BYTES;
    const held = load<u64>(at);
    if (held === hash || held === 0) return at;
    slot = (slot + 1) & (CHANGES_SLOTS - 1);
  }
}

export function noteChange(namespace: u32, key: usize, length: u32, version: f64): void {
  const hash = hashOf(namespace, key, length) | 1;
  const at = slotOf(current, hash);
  if (load<u64>(at) === hash) {
    store<f64>(at, max(load<f64>(at, 8), version), 8);
  } else if (inCurrent < MAX_NAMES) {
    store<u64>(at, hash);
    store<f64>(at, version, 8);
    inCurrent++;
  } else {
    // the table is full: from now on all names count as changed
    inCurrent = u32.MAX_VALUE;
  }
}

/** Drops the previous table and starts a new current one. */
export function rotateChanges(): void {
  const emptied = previous;
  if (inPrevious > 0) memory.fill(emptied, 0, TABLE_BYTES);
  previous = current;
  current = emptied;
  inPrevious = inCurrent;
  inCurrent = 0;
}

/** Returns true if a recent change of this name is known. */
export function hasChanged(namespace: u32, key: usize, length: u32): bool {
  return hasChangedTo(namespace, key, length, -1);
}

/** Returns true if a version of this name newer than `version` is known. */
export function hasChangedTo(namespace: u32, key: usize, length: u32, version: f64): bool {
  if (inCurrent === 0 && inPrevious === 0) return false;
  if (inCurrent === u32.MAX_VALUE || inPrevious === u32.MAX_VALUE) return true;
  const hash = hashOf(namespace, key, length) | 1;
  return (
    (inCurrent > 0 && isNewerIn(current, hash, version)) ||
    (inPrevious > 0 && isNewerIn(previous, hash, version))
  );
}

function isNewerIn(table: usize, hash: u64, version: f64): bool {
  const at = slotOf(table, hash);
  return load<u64>(at) === hash && load<f64>(at, 8) > version;
}
