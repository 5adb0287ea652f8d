/**
 * A ring of records, written at the head and given up at the tail. No record wraps: what is too short at
 * the ring's end becomes a dead record. Fields at the ring's address: start, end, head, tail, used, peak.
 */
import { DEAD, kindOf, markDead, setStamp, sizeOf } from './record';

@unmanaged
export class Ring {
  start: usize;
  end: usize;
  /** where the next record goes */
  head: usize;
  /** the oldest record */
  tail: usize;
  /** bytes between tail and head, dead ones included */
  used: usize;
  /** the highest address ever written: pages beyond it are not resident */
  peak: usize;
}

export const SMALL: Ring = changetype<Ring>(512);
export const MAIN: Ring = changetype<Ring>(576);

export function openRing(ring: Ring, start: usize, end: usize): void {
  ring.start = start;
  ring.end = end;
  ring.peak = start;
  emptyRing(ring);
}

export function emptyRing(ring: Ring): void {
  ring.head = ring.start;
  ring.tail = ring.start;
  ring.used = 0;
}

export function freeIn(ring: Ring): usize {
  return ring.end - ring.start - ring.used;
}

/** Takes room for a record at the head; 0 when there is not enough. The caller writes the record at once. */
export function claim(ring: Ring, size: u32): usize {
  const free = freeIn(ring);
  if (size > free) return 0;
  if (ring.used === 0) emptyRing(ring);
  if (ring.head >= ring.tail) {
    const toEnd = ring.end - ring.head;
    if (toEnd < size) {
      if (toEnd + size > free) return 0;
      markDead(ring.head, <u32>toEnd);
      ring.used += toEnd;
      ring.head = ring.start;
      ring.peak = ring.end;
    }
  }
  const record = ring.head;
  ring.head += size;
  ring.used += size;
  if (ring.head > ring.peak) ring.peak = ring.head;
  if (ring.head === ring.end) ring.head = ring.start;
  return record;
}

/** Gives up the oldest record. Its bytes stand until the next `claim`. */
export function pop(ring: Ring): usize {
  const record = ring.tail;
  const size = sizeOf(record);
  ring.used -= size;
  ring.tail += size;
  if (ring.tail === ring.end) ring.tail = ring.start;
  return record;
}

/** The record behind this one in the ring. */
export function nextIn(ring: Ring, record: usize): usize {
  const next = record + sizeOf(record);
  return next === ring.end ? ring.start : next;
}

/** Takes the stamp of every record away. */
export function unstampAll(): void {
  unstamp(SMALL);
  unstamp(MAIN);
}

function unstamp(ring: Ring): void {
  let record = ring.tail;
  for (let left = ring.used; left > 0; left -= sizeOf(record), record = nextIn(ring, record)) {
    // A dead record may be 8 bytes long and have no stamp.
    if (kindOf(record) !== DEAD) setStamp(record, 0);
  }
}
