/**
 * Ring of records, written at the head and freed at the tail. Records do not wrap: space too short at the ring's end
 * becomes a dead record. Fields at the ring's address: start, end, head, tail, used, peak.
 */
import { forget } from './index';
import { ABSENCE, ENTRY, kindOf, markDead, sizeOf, storedAtOf } from './record';

@unmanaged
class Ring {
  start: usize;
  end: usize;
  /** address of the next record */
  head: usize;
  /** address of the oldest record */
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

/** Allocates a record at the head; returns 0 if space is short. The caller writes the record at once. */
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

/** Frees the oldest record. Its bytes stay valid until the next `claim`. */
export function pop(ring: Ring): usize {
  const record = ring.tail;
  const size = sizeOf(record);
  ring.used -= size;
  ring.tail += size;
  if (ring.tail === ring.end) ring.tail = ring.start;
  return record;
}

/** Drops the entries and absences that were stored at this time or later. */
export function dropSince(sinceMs: f64): void {
  dropSinceIn(SMALL, sinceMs);
  dropSinceIn(MAIN, sinceMs);
}

function dropSinceIn(ring: Ring, sinceMs: f64): void {
  let record = ring.tail;
  for (let left = ring.used; left > 0; ) {
    const kind = kindOf(record);
    if ((kind === ENTRY || kind === ABSENCE) && storedAtOf(record) >= sinceMs) forget(record);
    left -= sizeOf(record);
    record += sizeOf(record);
    if (record === ring.end) record = ring.start;
  }
}
