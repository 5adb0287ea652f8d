/**
 * Answers a batch. Pass by pass, so that the cache misses of one element overlap with those of the next: hash every
 * key, find every candidate, judge every record, copy every body. No branch may hang on what is read for the first
 * time: where it is guessed wrong, the processor has to wait for the read and begins the next ones anew.
 */
import { closeArray, endBody, endNarrow, GAP_BYTES, MAX_END_BYTES, openArray, writeGap } from '../array';
import { hashOf } from './hash';
import { candidateOf, homeOf, slotAt } from './index-table';
import { ELEMENT_BYTES, ELEMENTS, GAPS, outputEnd, outputStart, RESULT } from './layout';
import { recordOf } from './links';
import {
  answersTo,
  bodyStartOf,
  fullLengthOf,
  setStamp,
  sharedLengthOf,
  softUntilOf,
  stampOf,
} from './record';
import { unstampAll } from './ring';
import { ABSENT, judge, MISS, touch } from './store';

export const OK: u32 = 0;
export const TOO_LARGE: u32 = 2;
/** Ref of an element that adds nothing to the answer: known to be absent, or answered already. */
const NOTHING: u32 = 1;

/** Number of the batch; each record it answers bears it, so that none is answered twice. */
let batch: u32 = 0;

/** Looks up the first `count` elements and writes the array of their bodies to the output. */
export function gather(
  count: u32,
  namespace: u32,
  isFull: bool,
  nowMs: f64,
  minStoredAtMs: f64,
  wallMs: f64,
): u32 {
  nextBatch();
  store<u32>(RESULT, count, 32);
  const end = ELEMENTS + <usize>count * ELEMENT_BYTES;
  hashKeys(end, namespace);
  findCandidates(end);
  lookUp(end, namespace, nowMs, minStoredAtMs, wallMs);
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
 * Finds the candidate of every element and reads its head. What has to come from memory is read first in loops so short
 * that many reads are under way at once; wasm has no prefetch. Reading the bodies ahead too won nothing, copying
 * them by v128 instead of memory.copy cost 60 µs a batch.
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
  // stored, lest the compiler drop the reads
  store<u32>(RESULT, sum, 36);
}

function nextBatch(): void {
  batch++;
  if (batch === 0) {
    // After 2^32 batches: lest a record bear the number of a batch of the last round.
    unstampAll();
    batch = 1;
  }
}

/** Turns the candidates of the elements into refs and counts them. */
function lookUp(end: usize, namespace: u32, nowMs: f64, minStoredAtMs: f64, wallMs: f64): void {
  let hits: u32 = 0;
  let absences: u32 = 0;
  let misses: u32 = 0;
  let soonestSoftMs: f64 = Infinity;
  for (let element = ELEMENTS; element < end; element += ELEMENT_BYTES) {
    const key: usize = load<u32>(element);
    const length = load<u32>(element, 4);
    let record = (<usize>load<u32>(element, 12)) << 3;
    // without a candidate there is no record; with one of the same hash the right one may follow it
    if (record !== 0 && !answersTo(record, namespace, key, length)) {
      record = recordOf(load<u32>(element, 8), namespace, key, length);
    }
    let ref = judge(record, nowMs, minStoredAtMs, wallMs);
    if (ref === MISS) misses++;
    else if (ref === ABSENT) {
      absences++;
      ref = NOTHING;
    } else if (stampOf(record) === batch) ref = NOTHING;
    else {
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

/** Writes `[body,body,…]`, and for each miss how long the output was when its turn came. */
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
