/**
 * Hotel ids of recently used channel ids and registry ids, so that their pointers need not be requested again. A
 * pointer is only a hint, here as in Redis: the entry that it leads to contains its own keys, which reveals a wrong one.
 *
 * The cache is set-associative, with 4 slots of 40 bytes a set. A slot is a u32, whose lower 6 bits are the length of the
 * id (0: empty) and whose other bits are from the hash of namespace and key, and the id: a UUID as text has room. A key
 * begins its search at the slot that its hash chooses, and replaces that one if all are taken.
 */
import { POINTER_CACHE, POINTER_SETS } from '../layout';

const POINTER_SLOT_BYTES: usize = 40;
const WAYS: u32 = 4;
const ID_AT: usize = 4;
const MAX_ID_BYTES: u32 = POINTER_SLOT_BYTES - ID_AT;
const LENGTH: u32 = 0x3f;

/** Returns the slot where the search for a hash begins, or one of those that follow. */
function slotAt(hash: u64, step: u32): usize {
  const way = (<u32>(hash >> 30) + step) & (WAYS - 1);
  return POINTER_CACHE + <usize>((<u32>hash & (POINTER_SETS - 1)) * WAYS + way) * POINTER_SLOT_BYTES;
}

function tagOf(hash: u64): u32 {
  return <u32>(hash >> 32) & ~LENGTH;
}

/** Returns the slot with this tag, 0 if there is none. */
function slotOf(hash: u64): usize {
  for (let step: u32 = 0; step < WAYS; step++) {
    const slot = slotAt(hash, step);
    const head = load<u32>(slot);
    if ((head & ~LENGTH) === tagOf(hash) && (head & LENGTH) !== 0) return slot;
  }
  return 0;
}

/**
 * Reads the slot of a hash, so that it is in the processor's cache: reads of many keys overlap, as long as nothing
 * depends on them. The result means nothing, and must be used for the read to take place.
 */
export function prefetch(hash: u64): u32 {
  const slot = slotAt(hash, 0);
  return load<u32>(slot) | load<u32>(slot, POINTER_SLOT_BYTES - 4);
}

/** Copies the id of a key to an address, if it is known. Returns its length, 0 if it is not. May write MAX_ID_BYTES. */
export function copyId(hash: u64, to: usize): u32 {
  const slot = slotOf(hash);
  if (slot === 0) return 0;
  v128.store(to, v128.load(slot, ID_AT));
  v128.store(to, v128.load(slot, ID_AT + 16), 16);
  store<u32>(to, load<u32>(slot, ID_AT + 32), 32);
  return load<u32>(slot) & LENGTH;
}

/** Remembers the id of a key. An id of more than MAX_ID_BYTES is not remembered. */
export function rememberId(hash: u64, from: usize, length: u32): void {
  if (length > MAX_ID_BYTES) return;
  let slot = slotOf(hash);
  for (let step: u32 = 0; step < WAYS && slot === 0; step++)
    if (load<u32>(slotAt(hash, step)) === 0) slot = slotAt(hash, step);
  if (slot === 0) slot = slotAt(hash, 0);
  store<u32>(slot, tagOf(hash) | length);
  memory.copy(slot + ID_AT, from, length);
}

export function forgetId(hash: u64): void {
  const slot = slotOf(hash);
  if (slot !== 0) store<u32>(slot, 0);
}
