/**
 * Lookups, by a single key and of a batch, and the array of bodies with which a batch is answered.
 *
 * A batch works in passes, so that cache misses of neighbouring elements overlap: hash all keys; then, for each
 * group of elements, find all candidates, check all records, copy all bodies. The records of a group stay in the first-level
 * cache between its passes. No branch depends on a value that is read for the first time, because a misprediction would
 * serialize the reads.
 */
import { ABSENT, MISS, NO_BODY, OK, TOO_LARGE } from '../../constants';
import * as fields from '../../fields';
import { hashOf } from '../hash';
import { ELEMENT_BYTES, ELEMENTS, GAPS, HASHES, outputEnd, outputStart, RESULT } from '../layout';
import { idHashOf, showAt } from './entry';
import { candidateOf, homeAt, recordOf } from './index';
import {
  ABSENCE,
  bodyStartOf,
  fullLengthOf,
  isCurrent,
  isLinkedBy,
  kindOf,
  lengthOf,
  RECORD_HEADER_BYTES,
  setStamp,
  sharedLengthOf,
  stampOf,
  touch,
} from './record';
import { clear } from './store';

/** Size of a group. As one group, batches of 1000 hotels of 1.1 kB took 9 % longer. */
const GROUP_BYTES: usize = 64 * ELEMENT_BYTES;
/** Gap: u32 index of the missing element, u32 offset in the response. */
export const GAP_BYTES: usize = 8;

/** `null` as a little-endian number */
const NULL: u32 = 0x6c6c756e;
const CLOSING: u8 = 0x7d;
const OPENING_BRACKET: u8 = 0x5b;
export const COMMA: u8 = 0x2c;
const CLOSING_BRACKET: u8 = 0x5d;
/** Maximum length of the part behind the shared body, comma included. */
export const MAX_END_BYTES: u32 = 8;

/** Ends of what `copy` has written. */
let output: usize = 0;
let gap: usize = 0;
/** Number of the batch. It is stamped on each record in the response, so that none appears twice. */
let batch: u32 = 0;

/** Returns the ref of a key, or ABSENT (-1), or MISS (0). */
export function find(
  namespace: u32,
  key: usize,
  length: u32,
  nowMs: f64,
  minStoredAtMs: f64,
  wallMs: f64,
): i32 {
  const record = recordOf(<u32>(hashOf(namespace, key, length) >> 32), namespace, key, length);
  const found = refIfCurrent(record, nowMs, minStoredAtMs, wallMs);
  if (found !== MISS && found !== ABSENT) touch(record);
  return <i32>found;
}

/** Returns the ref of a record, which shows the hotel as at `wallMs` then, or ABSENT, or MISS if it is not current. */
function refIfCurrent(record: usize, nowMs: f64, minStoredAtMs: f64, wallMs: f64): u32 {
  if (record === 0 || !isCurrent(record, nowMs, minStoredAtMs)) return MISS;
  if (kindOf(record) === ABSENCE) return ABSENT;
  showAt(record + RECORD_HEADER_BYTES, lengthOf(record), wallMs);
  return <u32>(record >> 3);
}

/** Looks up the first `count` elements and writes the array of their bodies to the output, with `hashesIds` the hashes of their ids. */
export function gather(
  count: u32,
  namespace: u32,
  isFull: bool,
  nowMs: f64,
  minStoredAtMs: f64,
  wallMs: f64,
  hashesIds: bool,
): i32 {
  nextBatch();
  memory.fill(RESULT, 0, 16);
  store<u32>(RESULT, count, fields.LOOKUP_COUNT);
  output = openArray(outputStart);
  gap = GAPS;
  const end = ELEMENTS + <usize>count * ELEMENT_BYTES;
  hashKeys(count, namespace);
  for (let start = ELEMENTS; start < end; start += GROUP_BYTES) {
    const groupEnd = min(end, start + GROUP_BYTES);
    findCandidates(start, groupEnd);
    lookUp(start, groupEnd, namespace, nowMs, minStoredAtMs, wallMs, hashesIds);
    if (!copy(start, groupEnd, isFull)) return TOO_LARGE;
  }
  store<u32>(RESULT, closeArray(outputStart, output), fields.LOOKUP_OUTPUT_LENGTH);
  return OK;
}

function nextBatch(): void {
  if (++batch !== 0) return;
  // the number has wrapped: old stamps would match
  clear();
  batch = 1;
}

/** Hashes the keys of the first `count` elements, and writes the whole hashes to HASHES. */
export function hashKeys(count: u32, namespace: u32): void {
  for (let i: u32 = 0; i < count; i++) {
    const element = ELEMENTS + <usize>i * ELEMENT_BYTES;
    const hash = hashOf(namespace, load<u32>(element), load<u32>(element, 4));
    store<u32>(element, <u32>(hash >> 32), 8);
    store<u64>(HASHES + 8 * <usize>i, hash);
  }
}

/**
 * Finds the candidate of every element and reads its header. Memory is first read in short loops, so that many reads
 * overlap; WebAssembly has no prefetch.
 */
function findCandidates(start: usize, end: usize): void {
  let sum: u32 = 0;
  for (let element = start; element < end; element += ELEMENT_BYTES)
    sum += load<u8>(homeAt(load<u32>(element, 8)));
  for (let element = start; element < end; element += ELEMENT_BYTES)
    store<u32>(element, <u32>(candidateOf(load<u32>(element, 8)) >> 3), 12);
  for (let element = start; element < end; element += ELEMENT_BYTES) {
    const record = (<usize>load<u32>(element, 12)) << 3;
    sum += load<u8>(record) + load<u8>(record, 64) + load<u8>(record, 128) + load<u8>(record, 192);
  }
  // the store keeps the compiler from dropping the reads
  store<u32>(RESULT, sum, 36);
}

/** Replaces the candidates of the elements by refs, and adds to the counts. */
function lookUp(
  start: usize,
  end: usize,
  namespace: u32,
  nowMs: f64,
  minStoredAtMs: f64,
  wallMs: f64,
  hashesIds: bool,
): void {
  let hits = load<u32>(RESULT, fields.LOOKUP_HITS);
  let absences = load<u32>(RESULT, fields.LOOKUP_ABSENCES);
  let misses = load<u32>(RESULT, fields.LOOKUP_MISSES);
  for (let element = start; element < end; element += ELEMENT_BYTES) {
    const key: usize = load<u32>(element);
    const length = load<u32>(element, 4);
    let record = (<usize>load<u32>(element, 12)) << 3;
    // the candidate has the same hash; a later slot may hold the right key
    if (record !== 0 && !isLinkedBy(record, namespace, key, length)) {
      record = recordOf(load<u32>(element, 8), namespace, key, length);
    }
    let ref = refIfCurrent(record, nowMs, minStoredAtMs, wallMs);
    if (ref === MISS) misses++;
    else if (ref === ABSENT) {
      absences++;
      ref = NO_BODY;
    } else if (stampOf(record) === batch) ref = NO_BODY;
    else {
      // here, because the id is in the processor's cache now
      if (hashesIds) store<u64>(HASHES + 8 * hits, idHashOf(record + RECORD_HEADER_BYTES));
      hits++;
      setStamp(record, batch);
      touch(record);
    }
    store<u32>(element, ref, 12);
  }
  store<u32>(RESULT, hits, fields.LOOKUP_HITS);
  store<u32>(RESULT, absences, fields.LOOKUP_ABSENCES);
  store<u32>(RESULT, misses, fields.LOOKUP_MISSES);
}

/**
 * Adds bodies to the array and, for each miss, the offset in the output at which its body belongs. Returns false if the output
 * has no room.
 */
function copy(start: usize, end: usize, isFull: bool): bool {
  for (let element = start; element < end; element += ELEMENT_BYTES) {
    const ref = load<u32>(element, 12);
    if (ref === NO_BODY) continue;
    if (ref === MISS) {
      store<u32>(gap, <u32>((element - ELEMENTS) / ELEMENT_BYTES));
      store<u32>(gap, <u32>(output - outputStart), 4);
      gap += GAP_BYTES;
      continue;
    }
    const record = (<usize>ref) << 3;
    const length = isFull ? fullLengthOf(record) : sharedLengthOf(record);
    if (length + MAX_END_BYTES > outputEnd - output) return false;
    memory.copy(output, bodyStartOf(record), length);
    output = endBody(output + length, isFull);
  }
  return true;
}

/** Writes the hash of the id of the entry at `ref` to RESULT. */
export function hashId(ref: u32): void {
  store<u64>(RESULT, idHashOf(((<usize>ref) << 3) + RECORD_HEADER_BYTES));
}

/** Writes the narrow view of the entry at `ref` to the output. */
export function narrow(ref: u32): void {
  const record = (<usize>ref) << 3;
  const length = sharedLengthOf(record);
  memory.copy(outputStart, bodyStartOf(record), length);
  endNarrow(outputStart + length);
}

/** Begins an array; returns the address of its first body. */
function openArray(start: usize): usize {
  store<u8>(start, OPENING_BRACKET);
  return start + 1;
}

/** Ends the narrow view of a body; returns the address behind it. */
function endNarrow(at: usize): usize {
  store<u32>(at, NULL);
  store<u8>(at, CLOSING, 4);
  return at + 5;
}

/** Ends a body; returns the address of the next. */
export function endBody(at: usize, isFull: bool): usize {
  if (!isFull) at = endNarrow(at);
  store<u8>(at, COMMA);
  return at + 1;
}

/** Ends the array whose next body would be at `at`; returns its length in bytes. */
export function closeArray(start: usize, at: usize): u32 {
  // the last comma becomes the bracket; an empty array has no comma
  if (at === start + 1) at++;
  store<u8>(at - 1, CLOSING_BRACKET);
  return <u32>(at - start);
}
