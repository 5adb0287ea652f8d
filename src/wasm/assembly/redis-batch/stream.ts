/**
 * The last step of a batch: from the reply with its entries, chunk by chunk as it arrives, to the answer. An entry is
 * looked at while it is still in the processor's cache, and of a reply never more is kept than one value.
 */

import { GAPS, RESULT } from '../arena/layout';
import { closeArray, endBody, GAP_BYTES, MAX_END_BYTES, openArray, writeGap } from '../array';
import {
  BODY_LENGTH_AT,
  CHECKSUM_BYTES,
  ENTRY_HEADER_BYTES,
  entryKey,
  entryKeyLength,
  FLAGS_AT,
  FROM_DAY_AT,
  isSame,
  isValid,
  MAGIC,
  MAGIC_AT,
  NO_DAY,
  SHARED_LENGTH_AT,
  TOMBSTONE,
  UNTIL_DAY_AT,
  VALID_UNTIL,
  VERSION_AT,
} from '../entry';
import { hasChangedTo } from './changes';
import { OUTPUT, OUTPUT_BYTES, REPLY, REPLY_BYTES, STREAMED } from './layout';
import { GAP, idLengthOf, idOf, keyLengthOf, keyOf, NOTHING } from './wanted';
import { xxh64 } from './xxh64';

export const MORE: u32 = 0;
export const DONE: u32 = 1;
/** no reply to an MGET */
export const REJECTED: u32 = 2;

const CR: u8 = 0x0d;
const MINUS: u8 = 0x2d;
const DAY_MS: f64 = 86_400_000;

let namespace: u32 = 0;
let isFull: bool = false;
let now: f64 = 0;
/** wanted in all; the next whose turn it is */
let count: u32 = 0;
let next: u32 = 0;
/** values still to come; -1 before the head of the reply */
let missing: i32 = -1;
let output: usize = OUTPUT;
let gaps: u32 = 0;
let hits: u32 = 0;
/** bytes at REPLY that are kept from the chunks before */
let kept: u32 = 0;
/** bytes still to come of a value that is too large to be kept */
let skipped: u32 = 0;

/** The table of the `wanted` stands at STREAMED; the reply is about to arrive. */
export function beginStream(wanted: u32, ofNamespace: u32, full: bool, nowMs: f64): void {
  namespace = ofNamespace;
  isFull = full;
  now = nowMs;
  count = wanted;
  next = 0;
  missing = -1;
  output = openArray(OUTPUT);
  gaps = 0;
  hits = 0;
  kept = 0;
  skipped = 0;
}

/** Where the next chunk belongs. */
export function chunkStart(): usize {
  return REPLY + kept;
}

/**
 * Takes a chunk of `length` bytes at `chunkStart`. Returns MORE, or DONE, or why it cannot be done. RESULT: how many
 * bytes of the chunk belong to what follows the reply; where DONE the length of the answer, gaps and hits.
 */
export function takeChunk(length: u32): u32 {
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
    if (after === 0) return keep(at, end);
    missing = readNumber(at + 1);
    at = after;
  }
  while (missing > 0) {
    if (at >= end) return keep(at, end);
    if (load<u8>(at) !== 0x24) return REJECTED;
    const value = afterLine(at, end);
    if (value === 0) return keep(at, end);
    const valueLength = readNumber(at + 1);
    const behind = valueLength < 0 ? value : value + valueLength + 2;
    const isTooLarge = valueLength > <i32>(REPLY_BYTES / 2);
    if (behind > end && !isTooLarge) return keep(at, end);
    advance();
    if (valueLength < 0 || isTooLarge || !add(value, valueLength)) addGap(next);
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
  store<u32>(RESULT, <u32>(end - at));
  store<u32>(RESULT, closeArray(OUTPUT, output), 4);
  store<u32>(RESULT, gaps, 8);
  store<u32>(RESULT, hits, 12);
  return DONE;
}

/** The address behind the line's end, 0 when that is not there yet. */
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

/** Goes over what was not asked of Redis, to the one whose value comes next. */
function advance(): void {
  while (next < count) {
    const idLength = idLengthOf(STREAMED, next);
    if (idLength < NOTHING) return;
    if (idLength === GAP) addGap(next);
    next++;
  }
}

function addGap(number: u32): void {
  writeGap(GAPS + gaps * GAP_BYTES, number, <u32>(output - OUTPUT));
  gaps++;
}

/** Adds the body of the entry to the answer; false when it is not what was wanted, or there is no room. */
function add(entry: usize, length: u32): bool {
  if (!isWanted(entry, length)) return false;
  const bodyLength = load<u32>(entry, BODY_LENGTH_AT);
  const copied = isFull ? bodyLength : load<u32>(entry, SHARED_LENGTH_AT);
  if (copied + MAX_END_BYTES > OUTPUT_BYTES - <u32>(output - OUTPUT)) return false;
  memory.copy(output, entry + length - bodyLength, copied);
  output = endBody(output + copied, isFull);
  hits++;
  return true;
}

/** True for a sound entry of the hotel that is wanted, present, true today, and the newest that was heard of. */
function isWanted(entry: usize, length: u32): bool {
  if (length < ENTRY_HEADER_BYTES || load<u32>(entry, MAGIC_AT) !== MAGIC) return false;
  if (<u32>xxh64(entry + CHECKSUM_BYTES, length - CHECKSUM_BYTES) !== load<u32>(entry)) return false;
  if (!isValid(entry, length) || (load<u8>(entry, FLAGS_AT) & TOMBSTONE) !== 0) return false;
  const id = idOf(STREAMED, next);
  const idLength = idLengthOf(STREAMED, next);
  if (entryKeyLength(entry, 0) !== idLength || !isSame(entryKey(entry, 0), id, idLength)) return false;
  const keyLength = keyLengthOf(STREAMED, next);
  if (entryKeyLength(entry, namespace) !== keyLength) return false;
  if (!isSame(entryKey(entry, namespace), keyOf(STREAMED, next), keyLength)) return false;
  return isTrueToday(entry) && !hasChangedTo(0, id, idLength, load<f64>(entry, VERSION_AT));
}

/** As `at` of entry.ts tells it. */
function isTrueToday(entry: usize): bool {
  const validUntil = load<f64>(entry, VALID_UNTIL);
  if (now >= validUntil) return false;
  const from = load<i32>(entry, FROM_DAY_AT);
  const until = load<i32>(entry, UNTIL_DAY_AT);
  if (from === NO_DAY || until === NO_DAY || from > until) return true;
  const fromMs = <f64>from * DAY_MS;
  if (validUntil === fromMs) return true;
  return now >= (validUntil === Infinity ? (<f64>until + 1) * DAY_MS : fromMs);
}
