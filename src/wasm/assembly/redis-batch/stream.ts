/**
 * Last step of a batch: reads the reply with its entries, chunk by chunk as it arrives, into the response. An entry is
 * read while it is in the processor's cache. At most one value of a reply is buffered.
 */

import { BODY_LENGTH_AT, LABEL_AT, SHARED_LENGTH_AT } from '../../../hotels/entry-layout';
import { MAX_ENTRY_BYTES } from '../../constants';
import { recordOf } from '../arena/links';
import { putEntry } from '../arena/store';
import { closeArray, endBody, MAX_END_BYTES } from '../array';
import { hasKey, isValid } from '../entry';
import { hashOf, spread } from '../hash';
import { REPLY, RESPONSE, RESPONSE_BYTES, RESULT, STREAMED } from '../layout';
import {
  GAP,
  hitsPlaceOf,
  idLengthOf,
  idOf,
  keyLengthOf,
  keyOf,
  NOTHING,
  setEntry,
  setGap,
  setId,
} from './pending-keys';
import { forgetId } from './pointer-cache';
import { isAbsence, isIntact, isValidAt, keepAbsence } from './values';
import { isOutdated, newestChange } from './window';

export const MORE: u32 = 0;
export const DONE: u32 = 1;
/** the reply is no array with a value for each requested entry */
export const REJECTED: u32 = 2;

const CR: u8 = 0x0d;
const MINUS: u8 = 0x2d;
/** Maximum length of the line before an array or a value. */
const LINE_BYTES: usize = 13;
/** What becomes of an entry: a body of the response, or the entry itself, whose certification may have flipped. */
const FULL: u32 = 1;
const ENTRIES: u32 = 2;

let namespace: u32 = 0;
let view: u32 = 0;
let now: f64 = 0;
/** number of records, and the index of the current one */
let count: u32 = 0;
let next: u32 = 0;
/** number of entries that the reply must contain */
let requested: i32 = 0;
/** values still to come; -1 before the head of the reply */
let missing: i32 = -1;
let output: usize = RESPONSE;
let gaps: u32 = 0;
let hits: u32 = 0;
let absent: u32 = 0;
let invalid: u32 = 0;
/** address and length of the local hits, and how many of their bytes are in the response */
let hitsStart: usize = 0;
let hitsLength: u32 = 0;
let hitsTaken: u32 = 0;
/** one of so many entries is stored in the local cache */
let storedOneOf: u32 = 0;
/** entries since the last that was stored */
let passed: u32 = 0;
/** time at which entries are stored, negative: none is; mean time from then to their refresh */
let storedAtMs: f64 = -1;
let refreshMs: f64 = 0;
let absentTtlMs: f64 = 0;
/** bytes at REPLY from earlier chunks */
let kept: u32 = 0;
/** bytes still to come of a value longer than any entry */
let skipped: u32 = 0;

/** Prepares for the reply to the batch whose table of `keys` records is at STREAMED. `ofView`: narrow, FULL or ENTRIES. */
export function beginStream(
  keys: u32,
  ofNamespace: u32,
  ofView: u32,
  nowMs: f64,
  startOfHits: usize,
  ofHits: u32,
  ofStored: u32,
  toRefreshMs: f64,
  ofAbsentTtlMs: f64,
): void {
  namespace = ofNamespace;
  view = ofView;
  now = nowMs;
  count = keys;
  next = 0;
  requested = 0;
  for (let i: u32 = 0; i < keys; i++) if (idLengthOf(STREAMED, i) < NOTHING) requested++;
  missing = -1;
  output = RESPONSE;
  hitsStart = startOfHits;
  hitsLength = ofHits;
  hitsTaken = 0;
  storedOneOf = ofStored;
  refreshMs = toRefreshMs;
  absentTtlMs = ofAbsentTtlMs;
  gaps = 0;
  hits = 0;
  absent = 0;
  invalid = 0;
  kept = 0;
  skipped = 0;
  readBuckets();
}

/**
 * Reads the buckets of all ids, so that they are in the processor's cache: these reads overlap, those between the bodies
 * do not. It takes 50 us of 340 us off a batch of 1000.
 */
function readBuckets(): void {
  let sum: f64 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const idLength = idLengthOf(STREAMED, i);
    if (idLength < NOTHING) sum += newestChange(0, idOf(STREAMED, i), idLength);
  }
  // the store keeps the compiler from dropping the reads
  store<f64>(RESULT, sum);
}

/** Returns the address for the next chunk. */
export function chunkStart(): usize {
  return REPLY + kept;
}

/**
 * Reads a chunk of `length` bytes at `chunkStart`. The local cache stores its entries as read at `nowMs`; negative:
 * none. Returns MORE, DONE or an error. RESULT: the number of bytes of the chunk that follow the reply; if DONE, also
 * the response's length, its gaps, hits, absent keys and invalid values. The table then has the places of gaps, and of
 * ENTRIES.
 */
export function takeChunk(length: u32, nowMs: f64): u32 {
  storedAtMs = nowMs;
  const end = REPLY + kept + length;
  let at = REPLY;
  if (skipped > 0) {
    if (length < skipped) {
      skipped -= length;
      return MORE;
    }
    at += skipped;
    skipped = 0;
  }
  if (missing < 0) {
    if (load<u8>(at) !== 0x2a) return REJECTED;
    const after = afterLine(at, end);
    if (after === 0) return keepLine(at, end);
    missing = readNumber(at + 1);
    if (missing !== requested) return REJECTED;
    at = after;
  }
  while (missing > 0) {
    if (at >= end) return keep(at, end);
    if (load<u8>(at) !== 0x24) return REJECTED;
    const value = afterLine(at, end);
    if (value === 0) return keepLine(at, end);
    const valueLength = readNumber(at + 1);
    const behind = valueLength < 0 ? value : value + valueLength + 2;
    const isTooLarge = valueLength > MAX_ENTRY_BYTES;
    if (behind > end && !isTooLarge) return keep(at, end);
    advance();
    // behind the last record are the texts, and behind them the command
    if (next >= count) unreachable();
    if (valueLength < 0 || !take(value, isTooLarge ? 0 : valueLength)) reject();
    next++;
    missing--;
    at = behind;
    if (at > end) {
      skipped = <u32>(at - end);
      kept = 0;
      return MORE;
    }
  }
  advance();
  takeHits(hitsLength);
  store<u32>(RESULT, <u32>(end - at));
  store<u32>(RESULT, view === ENTRIES ? <u32>(output - RESPONSE) : closeArray(RESPONSE, output), 4);
  store<u32>(RESULT, gaps, 8);
  store<u32>(RESULT, hits, 12);
  store<u32>(RESULT, absent, 16);
  store<u32>(RESULT, invalid, 20);
  return DONE;
}

/** Returns the address behind the end of the line, 0 if it has not arrived. */
function afterLine(at: usize, end: usize): usize {
  while (at < end && load<u8>(at) !== CR) at++;
  return at + 2 <= end ? at + 2 : 0;
}

function readNumber(at: usize): i32 {
  const isNegative = load<u8>(at) === MINUS;
  if (isNegative) at++;
  let number: i32 = 0;
  for (; load<u8>(at) !== CR; at++) number = 10 * number + load<u8>(at) - 0x30;
  return isNegative ? -number : number;
}

function keep(at: usize, end: usize): u32 {
  kept = <u32>(end - at);
  memory.copy(REPLY, at, kept);
  return MORE;
}

function keepLine(at: usize, end: usize): u32 {
  return end - at > LINE_BYTES ? REJECTED : keep(at, end);
}

/** Skips the records without a request to Redis. */
function advance(): void {
  while (next < count) {
    const idLength = idLengthOf(STREAMED, next);
    if (idLength < NOTHING) return;
    if (idLength === GAP) addGap(next);
    next++;
  }
}

/** Adds the local hits before this place to the response. */
function takeHits(place: u32): void {
  if (view === ENTRIES || place === hitsTaken) return;
  const length = place - hitsTaken;
  // behind them are those of other batches; `add` leaves room for all of them, behind which is the window
  if (place > hitsLength || length > RESPONSE_BYTES - <u32>(output - RESPONSE)) unreachable();
  memory.copy(output, hitsStart + hitsTaken, length);
  output += length;
  hitsTaken = place;
}

function addGap(number: u32): void {
  takeHits(hitsPlaceOf(STREAMED, number));
  setGap(STREAMED, number, <u32>(output - RESPONSE));
  gaps++;
}

/** Leaves a gap for the present record, whose pointer may be wrong. */
function reject(): void {
  const hash = hashOf(namespace, keyOf(STREAMED, next), keyLengthOf(STREAMED, next));
  addGap(next);
  forgetId(hash);
}

/** Takes a value as the entry or the absence of the present record. Returns false if it is not usable or space is short. */
function take(entry: usize, length: u32): bool {
  const id = idOf(STREAMED, next);
  const idLength = idLengthOf(STREAMED, next);
  if (isAbsence(entry, length, 0, id, idLength)) {
    // else the pointer is outdated
    if (namespace !== 0 || isOutdated(0, id, idLength, load<f64>(entry, LABEL_AT))) return false;
    if (storedAtMs >= 0) keepAbsence(0, id, idLength, storedAtMs, absentTtlMs);
    setId(STREAMED, next, 0, NOTHING);
    absent++;
    return true;
  }
  if (!isIntact(entry, length) || !isValid(entry, length) || !hasKey(entry, 0, id, idLength)) {
    invalid++;
    return false;
  }
  if (!hasKey(entry, namespace, keyOf(STREAMED, next), keyLengthOf(STREAMED, next))) return false;
  if (isOutdated(0, id, idLength, load<f64>(entry, LABEL_AT))) return false;
  const isCurrent = isValidAt(entry, now);
  if (view !== ENTRIES && !isCurrent) return false;
  // the clock may have gone back before the midnight of its certification, which a lookup does not notice
  if (storedAtMs >= 0 && isCurrent) storeLocally(entry, length);
  return add(entry, length);
}

/** Stores an entry in the local cache, or a sample; of ENTRIES, which are few, also each whose key is held, at any age. */
function storeLocally(entry: usize, length: u32): void {
  const key = keyOf(STREAMED, next);
  const keyLength = keyLengthOf(STREAMED, next);
  const hash = hashOf(namespace, key, keyLength);
  const isHeld = view === ENTRIES && recordOf(<u32>(hash >> 32), namespace, key, keyLength) !== 0;
  if (!isHeld && ++passed < storedOneOf) return;
  if (!isHeld) passed = 0;
  putEntry(entry, length, storedAtMs, storedAtMs + refreshMs * spread(1, hash));
}

/** Adds an entry, or its body, to the response. Returns false if space is short. */
function add(entry: usize, length: u32): bool {
  const bodyLength = load<u32>(entry, BODY_LENGTH_AT);
  const copied = view === ENTRIES ? length : view === FULL ? bodyLength : load<u32>(entry, SHARED_LENGTH_AT);
  const needed = copied + MAX_END_BYTES + hitsLength - hitsTaken;
  if (needed > RESPONSE_BYTES - <u32>(output - RESPONSE)) return false;
  hits++;
  if (view === ENTRIES) {
    memory.copy(output, entry, length);
    setEntry(STREAMED, next, <u32>(output - RESPONSE), length);
    output += length;
    return true;
  }
  takeHits(hitsPlaceOf(STREAMED, next));
  memory.copy(output, entry + length - bodyLength, copied);
  output = endBody(output + copied, view === FULL);
  return true;
}
