/**
 * Batch lookup. It works in passes, so that cache misses of neighbouring elements overlap: hash all keys; then, for each
 * group of elements, find all candidates, check all records, copy all bodies. The records of a group stay in the first-level
 * cache between its passes. No branch depends on a value that is read for the first time, because a misprediction would
 * serialize the reads.
 */
import { NO_BODY, OK, TOO_LARGE } from '../../constants';
import { closeArray, endBody, endNarrow, GAP_BYTES, MAX_END_BYTES, openArray, writeGap } from '../array';
import { hashOf } from '../hash';
import { ELEMENT_BYTES, ELEMENTS, GAPS, HASHES, outputEnd, outputStart, RESULT } from '../layout';
import { idHashOf } from './eviction';
import { candidateOf, homeOf, slotAt } from './index-table';
import { recordOf } from './links';
import {
  bodyStartOf,
  fullLengthOf,
  isLinkedBy,
  RECORD_HEADER_BYTES,
  setStamp,
  sharedLengthOf,
  stampOf,
} from './record';
import { dropSince } from './ring';
import { ABSENT, MISS, refIfValid, touch } from './store';

/** Size of a group. As one group, batches of 1000 hotels of 1.1 kB took 9 % longer. */
const GROUP_BYTES: usize = 64 * ELEMENT_BYTES;

/** Ends of what `copy` has written. */
let output: usize = 0;
let gap: usize = 0;

/** Number of the batch. It is stamped on each record in the response, so that none appears twice. */
let batch: u32 = 0;

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
  store<u32>(RESULT, count, 32);
  output = openArray(outputStart);
  gap = GAPS;
  const end = ELEMENTS + <usize>count * ELEMENT_BYTES;
  hashKeys(end, namespace);
  for (let start = ELEMENTS; start < end; start += GROUP_BYTES) {
    const groupEnd = min(end, start + GROUP_BYTES);
    findCandidates(start, groupEnd);
    lookUp(start, groupEnd, namespace, nowMs, minStoredAtMs, wallMs, hashesIds);
    if (!copy(start, groupEnd, isFull)) return TOO_LARGE;
  }
  store<u32>(RESULT, closeArray(outputStart, output), 12);
  return OK;
}

/** Hashes every key. */
function hashKeys(end: usize, namespace: u32): void {
  for (let element = ELEMENTS; element < end; element += ELEMENT_BYTES) {
    const hash = <u32>(hashOf(namespace, load<u32>(element), load<u32>(element, 4)) >> 32);
    store<u32>(element, hash, 8);
  }
}

/**
 * Finds the candidate of every element and reads its header. Memory is first read in short loops, so that many reads
 * overlap; WebAssembly has no prefetch.
 */
function findCandidates(start: usize, end: usize): void {
  let sum: u32 = 0;
  for (let element = start; element < end; element += ELEMENT_BYTES)
    sum += load<u8>(slotAt(homeOf(load<u32>(element, 8))));
  for (let element = start; element < end; element += ELEMENT_BYTES)
    store<u32>(element, <u32>(candidateOf(load<u32>(element, 8)) >> 3), 12);
  for (let element = start; element < end; element += ELEMENT_BYTES) {
    const record = (<usize>load<u32>(element, 12)) << 3;
    sum += load<u8>(record) + load<u8>(record, 64) + load<u8>(record, 128) + load<u8>(record, 192);
  }
  // the store keeps the compiler from dropping the reads
  store<u32>(RESULT, sum, 36);
}

function nextBatch(): void {
  batch++;
  if (batch === 0) {
    // the number wraps after 2^32 batches, and old stamps would match
    dropSince(-Infinity);
    batch = 1;
  }
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
  let hits = load<u32>(RESULT);
  let absences = load<u32>(RESULT, 4);
  let misses = load<u32>(RESULT, 8);
  for (let element = start; element < end; element += ELEMENT_BYTES) {
    const key: usize = load<u32>(element);
    const length = load<u32>(element, 4);
    let record = (<usize>load<u32>(element, 12)) << 3;
    // the candidate has the same hash; a later slot may hold the right key
    if (record !== 0 && !isLinkedBy(record, namespace, key, length)) {
      record = recordOf(load<u32>(element, 8), namespace, key, length);
    }
    let ref = refIfValid(record, nowMs, minStoredAtMs, wallMs);
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
  store<u32>(RESULT, hits);
  store<u32>(RESULT, absences, 4);
  store<u32>(RESULT, misses, 8);
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
      writeGap(gap, <u32>((element - ELEMENTS) / ELEMENT_BYTES), <u32>(output - outputStart));
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

/** Writes the narrow view of the entry at `ref` to the output. */
export function narrow(ref: u32): void {
  const record = (<usize>ref) << 3;
  const length = sharedLengthOf(record);
  memory.copy(outputStart, bodyStartOf(record), length);
  endNarrow(outputStart + length);
}
