/**
 * First two steps of what a lookup missed: to the MGET of pointers, and from the pointers to the MGET of entries. The commands are
 * RESP2 (redis.io/docs/latest/develop/reference/protocol-spec).
 */

import { GAP, PENDING_BYTES } from '../../constants';
import * as fields from '../../fields';
import { isSame, MAX_KEY_BYTES } from '../arena/entry';
import { GAP_BYTES } from '../arena/lookup';
import { hashOf } from '../hash';
import {
  COMMAND,
  ELEMENT_BYTES,
  ELEMENTS,
  GAPS,
  PLACES,
  PREFIX,
  REPLY,
  RESULT,
  SCRATCH,
  SEEN,
  SEEN_SLOTS,
} from '../layout';
import { pendingAt } from './pending-keys';
import { copyId, prefetch, rememberId } from './pointer-cache';

/** Number of the namespace of hotels' own ids, which need no pointers. */
const ID: u32 = 0;
/**
 * One of this number of batches requests its pointers although they are known. A pointer that is never read would be the
 * first to be evicted by a full Redis, and then missing to other processes and to single reads.
 */
const REFRESH_ONE_OF: u32 = 64;
const POINTER_MARK: u8 = 0x3e;

/** `$4\r\nMGET` as a little-endian number */
// biome-ignore lint/correctness/noPrecisionLoss: 64 bits in AssemblyScript
const MGET: u64 = 0x5445474d0a0d3424;
const LINE_END: u16 = 0x0a0d;

let batches: u32 = 0;
/** of the command */
let end: usize = COMMAND;

/**
 * Writes the table of the keys that the last lookup missed, each once with its place among the hits, and the MGET of their
 * pointers. Keys that no hotel can have are left out. Known pointers are not requested, except by one batch in REFRESH_ONE_OF,
 * so that Redis does not evict them as unused. Returns the number of keys in the table.
 */
export function requestPointers(misses: u32, namespace: u32, prefixLength: u32): u32 {
  memory.fill(SEEN, 0, SEEN_SLOTS * 2);
  let place = SCRATCH + misses * PENDING_BYTES;
  let count: u32 = 0;
  for (let i: u32 = 0; i < misses; i++) {
    const gap = GAPS + <usize>i * GAP_BYTES;
    const element = ELEMENTS + <usize>load<u32>(gap) * ELEMENT_BYTES;
    const key: usize = load<u32>(element);
    const keyLength = load<u32>(element, 4);
    if (keyLength === 0 || keyLength > MAX_KEY_BYTES) continue;
    const hash = hashOf(namespace, key, keyLength);
    if (!isFirst(hash, key, keyLength, count)) continue;
    const pending = pendingAt(count);
    pending.keyAt = place;
    pending.keyLength = keyLength;
    pending.idAt = place;
    pending.idLength = namespace === ID ? keyLength : GAP;
    pending.place = load<u32>(gap, 4);
    memory.copy(place, key, keyLength);
    place += keyLength;
    store<u64>(PLACES + <usize>count * 8, hash);
    count++;
  }
  let requested: u32 = namespace === ID ? 0 : count;
  if (namespace !== ID && ++batches % REFRESH_ONE_OF !== 0) {
    let read: u32 = 0;
    for (let i: u32 = 0; i < count; i++) read |= prefetch(load<u64>(PLACES + <usize>i * 8));
    store<u32>(RESULT, read, 12);
    for (let i: u32 = 0; i < count; i++) {
      const idLength = copyId(load<u64>(PLACES + <usize>i * 8), place);
      if (idLength === 0) continue;
      const pending = pendingAt(i);
      pending.idAt = place;
      pending.idLength = idLength;
      place += idLength;
      requested--;
    }
  }
  beginCommand(requested);
  for (let i: u32 = 0; i < count && requested > 0; i++) {
    const pending = pendingAt(i);
    if (pending.idLength === GAP) addKey(prefixLength, pending.keyAt, pending.keyLength);
  }
  store<u32>(RESULT, <u32>(end - COMMAND), fields.COMMAND_LENGTH);
  store<u32>(RESULT, <u32>(place - SCRATCH), fields.TABLE_LENGTH);
  store<u32>(RESULT, requested, fields.REQUESTED_POINTERS);
  return count;
}

/** Returns true if the key is none of the first `number` of the table, and notes it as the next. */
function isFirst(hash: u64, key: usize, length: u32, number: u32): bool {
  let slot = <u32>(hash >> 32) & (SEEN_SLOTS - 1);
  while (true) {
    const at = SEEN + slot * 2;
    const held: u32 = load<u16>(at);
    if (held === 0) {
      store<u16>(at, <u16>(number + 1));
      return true;
    }
    const other = pendingAt(held - 1);
    if (other.keyLength === length && isSame(other.keyAt, key, length)) return false;
    slot = (slot + 1) & (SEEN_SLOTS - 1);
  }
}

/**
 * Reads the pointers at REPLY, located by PLACES, into the table of `count` records and `length` bytes at SCRATCH,
 * and writes the MGET of the entries of all ids. Returns the number of entries.
 */
export function requestEntries(count: u32, length: u32, namespace: u32, prefixLength: u32): u32 {
  let place = SCRATCH + length;
  let named: u32 = 0;
  let invalid: u32 = 0;
  let at = PLACES;
  for (let i: u32 = 0; i < count; i++) {
    const pending = pendingAt(i);
    if (pending.idLength === GAP) {
      const value = REPLY + load<u32>(at);
      const valueLength = load<i32>(at, 4);
      at += 8;
      if (valueLength < 0) continue;
      const idLength: u32 = valueLength - 1;
      if (valueLength < 2 || load<u8>(value) !== POINTER_MARK || idLength > MAX_KEY_BYTES) {
        invalid++;
        continue;
      }
      pending.idAt = place;
      pending.idLength = idLength;
      memory.copy(place, value + 1, idLength);
      rememberId(hashOf(namespace, pending.keyAt, pending.keyLength), value + 1, idLength);
      place += idLength;
    }
    named++;
  }
  beginCommand(named);
  for (let i: u32 = 0; i < count; i++) {
    const pending = pendingAt(i);
    if (pending.hasId) addKey(prefixLength, pending.idAt, pending.idLength);
  }
  store<u32>(RESULT, <u32>(end - COMMAND), fields.COMMAND_LENGTH);
  store<u32>(RESULT, <u32>(place - SCRATCH), fields.TABLE_LENGTH);
  store<u32>(RESULT, invalid, fields.INVALID_POINTERS);
  return named;
}

function writeNumber(mark: u8, number: u32): void {
  store<u8>(end, mark);
  end++;
  let divisor: u32 = 1;
  while (number / divisor >= 10) divisor *= 10;
  for (; divisor > 0; divisor /= 10) {
    store<u8>(end, <u8>(0x30 + ((number / divisor) % 10)));
    end++;
  }
  store<u16>(end, LINE_END);
  end += 2;
}

/** Begins a command for `keys` keys. */
function beginCommand(keys: u32): void {
  end = COMMAND;
  writeNumber(0x2a, keys + 1);
  store<u64>(end, MGET);
  store<u16>(end, LINE_END, 8);
  end += 10;
}

/** Appends a key, preceded by the `prefixLength` bytes at PREFIX. */
function addKey(prefixLength: u32, key: usize, length: u32): void {
  writeNumber(0x24, prefixLength + length);
  memory.copy(end, PREFIX, prefixLength);
  end += prefixLength;
  memory.copy(end, key, length);
  end += length;
  store<u16>(end, LINE_END);
  end += 2;
}
