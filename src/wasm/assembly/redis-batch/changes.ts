/**
 * What changed lately, and to which version: two tables, a young and an old one that change places. A slot is the
 * u64 hash of a name and the f64 version; open addressing, linear probing. Two names of one hash (among 300,000, once
 * in 10^8 tables) make one look changed that is not, never the other way round; so does a table that is full.
 */
import { hashOf } from '../arena/hash';
import { CHANGES, CHANGES_SLOTS } from './layout';

const SLOT_BYTES: usize = 16;
const TABLE_BYTES: usize = <usize>CHANGES_SLOTS * SLOT_BYTES;
const MAX_NAMES: u32 = CHANGES_SLOTS - (CHANGES_SLOTS >> 2);

let young: usize = CHANGES;
let old: usize = CHANGES + TABLE_BYTES;
let inYoung: u32 = 0;
let inOld: u32 = 0;

/** The slot of a hash, or the empty one where it belongs. */
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
  const at = slotOf(young, hash);
  if (load<u64>(at) === hash) {
    store<f64>(at, max(load<f64>(at, 8), version), 8);
  } else if (inYoung < MAX_NAMES) {
    store<u64>(at, hash);
    store<f64>(at, version, 8);
    inYoung++;
  } else {
    // no room to remember it: from now on all count as changed
    inYoung = u32.MAX_VALUE;
  }
}

/** What is old is forgotten, what is young is old. */
export function turnChanges(): void {
  const emptied = old;
  if (inOld > 0) memory.fill(emptied, 0, TABLE_BYTES);
  old = young;
  young = emptied;
  inOld = inYoung;
  inYoung = 0;
}

/** False when no change of this name was heard of. */
export function hasChanged(namespace: u32, key: usize, length: u32): bool {
  return hasChangedTo(namespace, key, length, -1);
}

/** False when no version of this name was heard of that is newer than `version`. */
export function hasChangedTo(namespace: u32, key: usize, length: u32, version: f64): bool {
  if (inYoung === 0 && inOld === 0) return false;
  if (inYoung === u32.MAX_VALUE || inOld === u32.MAX_VALUE) return true;
  const hash = hashOf(namespace, key, length) | 1;
  return (inYoung > 0 && isNewerIn(young, hash, version)) || (inOld > 0 && isNewerIn(old, hash, version));
}

function isNewerIn(table: usize, hash: u64, version: f64): bool {
  const at = slotOf(table, hash);
  return load<u64>(at) === hash && load<f64>(at, 8) > version;
}
