/**
 * Batch lookup. It works in passes, so that cache misses of neighbouring elements overlap: hash all keys, find all
 * candidates, check all records, copy all bodies. No branch depends on a value that is read for the first time, because
 * a misprediction would serialize the reads.
 */
import { closeArray, endBody, endNarrow, GAP_BYTES, MAX_END_BYTES, openArray, writeGap } from '../array';
import { hashOf } from '../hash';
import { idHashOf } from './eviction';
import { candidateOf, homeOf, slotAt } from './index-table';
import { ELEMENT_BYTES, ELEMENTS, GAPS, HASHES, outputEnd, outputStart, RESULT } from './layout';
import { recordOf } from './links';
import {
  bodyStartOf,
  fullLengthOf,
  isLinkedBy,
  RECORD_HEADER_BYTES,
  setStamp,
  sharedLengthOf,
  softUntilOf,
  stampOf,
} from './record';
import { unstampAll } from './ring';
import { ABSENT, MISS, refIfValid, touch } from './store';

export const OK: u32 = 0;
export const TOO_LARGE: u32 = 2;
/** Ref of an element that adds nothing to the response: absent, or a repetition. */
const NOTHING: u32 = 1;

/** Number of the batch. It is stamped on each record in the response, so that none appears twice. */
let batch: u32 = 0;

/**
 * Looks up the first `count` elements and writes the array of their bodies to the output. `isRestricted`: not all hotels are
 * visible, so known absences count as misses, and the hash of each hit's id is written.
 */
export function gather(
  count: u32,
  namespace: u32,
  isFull: bool,
  nowMs: f64,
  minStoredAtMs: f64,
  wallMs: f64,
  isRestricted: bool,
): u32 {
  nextBatch();
  store<u32>(RESULT, count, 32);
  const end = ELEMENTS + <usize>count * ELEMENT_BYTES;
  hashKeys(end, namespace);
  findCandidates(end);
  lookUp(end, namespace, nowMs, minStoredAtMs, wallMs, isRestricted);
  return copy(end, isFull);
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
function findCandidates(end: usize): void {
  let sum: u32 = 0;
  for (let element = ELEMENTS; element < end; element += ELEMENT_BYTES)
    sum += load<u8>(slotAt(homeOf(load<u32>(element, 8))));
  for (let element = ELEMENTS; element < end; element += ELEMENT_BYTES)
    store<u32>(element, <u32>(candidateOf(load<u32>(element, 8)) >> 3), 12);
  for (let element = ELEMENTS; element < end; element += ELEMENT_BYTES) {
    const record = (<usize>load<u32>(element, 12)) << 3;
    sum += load<u8>(record) + load<u8>(record, 64) + load<u8>(record, 128);
  }
  // the store keeps the compiler from dropping the reads
  store<u32>(RESULT, sum, 36);
}

function nextBatch(): void {
  batch++;
  if (batch === 0) {
    // the number wraps after 2^32 batches, and old stamps would match
    unstampAll();
    batch = 1;
  }
}

/** Replaces the candidates of the elements by refs and counts them. */
function lookUp(
  end: usize,
  namespace: u32,
  nowMs: f64,
  minStoredAtMs: f64,
  wallMs: f64,
  isRestricted: bool,
): void {
  let hits: u32 = 0;
  let absences: u32 = 0;
  let misses: u32 = 0;
  let soonestSoftMs: f64 = Infinity;
  for (let element = ELEMENTS; element < end; element += ELEMENT_BYTES) {
    const key: usize = load<u32>(element);
    const length = load<u32>(element, 4);
    let record = (<usize>load<u32>(element, 12)) << 3;
    // the candidate has the same hash; a later slot may hold the right key
    if (record !== 0 && !isLinkedBy(record, namespace, key, length)) {
      record = recordOf(load<u32>(element, 8), namespace, key, length);
    }
    let ref = refIfValid(record, nowMs, minStoredAtMs, wallMs);
    if (isRestricted && ref === ABSENT) ref = MISS;
    if (ref === MISS) misses++;
    else if (ref === ABSENT) {
      absences++;
      ref = NOTHING;
    } else if (stampOf(record) === batch) ref = NOTHING;
    else {
      // here, because the id is in the processor's cache now
      if (isRestricted) store<u64>(HASHES + 8 * hits, idHashOf(record + RECORD_HEADER_BYTES));
      hits++;
      setStamp(record, batch);
      touch(record);
      soonestSoftMs = min(soonestSoftMs, softUntilOf(record));
    }
    store<u32>(element, ref, 12);
  }
  store<u32>(RESULT, hits);
  store<u32>(RESULT, absences, 4);
  store<u32>(RESULT, misses, 8);
  store<f64>(RESULT, soonestSoftMs, 16);
}

/** Writes `[body,body,…]` and, for each miss, the offset in the output at which its body belongs. */
function copy(end: usize, isFull: bool): u32 {
  let output = openArray(outputStart);
  let gap = GAPS;
  for (let element = ELEMENTS; element < end; element += ELEMENT_BYTES) {
    const ref = load<u32>(element, 12);
    if (ref === NOTHING) continue;
    if (ref === MISS) {
      writeGap(gap, <u32>((element - ELEMENTS) / ELEMENT_BYTES), <u32>(output - outputStart));
      gap += GAP_BYTES;
      continue;
    }
    const record = (<usize>ref) << 3;
    const length = isFull ? fullLengthOf(record) : sharedLengthOf(record);
    if (length + MAX_END_BYTES > outputEnd - output) {
      store<u32>(RESULT, 0, 12);
      return TOO_LARGE;
    }
    memory.copy(output, bodyStartOf(record), length);
    output = endBody(output + length, isFull);
  }
  store<u32>(RESULT, closeArray(outputStart, output), 12);
  return OK;
}

/** Writes the narrow view of one record to the output. */
export function writeNarrow(record: usize): void {
  const length = sharedLengthOf(record);
  memory.copy(outputStart, bodyStartOf(record), length);
  endNarrow(outputStart + length);
}
