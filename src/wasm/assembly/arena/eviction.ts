/**
 * Eviction by S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak: FIFO queues are all you need for cache eviction, SOSP 2023).
 * New records enter a small ring. At its tail, an entry with more than one hit moves to the main ring. Any other is
 * evicted and leaves a ghost; absences never move and leave none. A key with a known ghost enters the main ring directly. At the
 * main ring's tail, a record with hits is reinserted with one hit less.
 *
 * Two things differ from the paper. Until the main ring is full, all entries move there. One claim reinserts at most
 * MAX_REINSERTIONS records, which bounds a put among hot records only. With 8 it takes half the time of 16, for 2.9
 * points of the hit ratio of Zipf reads with room for a third of the hotels.
 *
 * A ring is written at the head and freed at the tail. Records do not wrap: space too short at the ring's end becomes a dead
 * record.
 *
 * Hit ratio for Zipf reads (exponent 0.8) with room for 13 % of the hotels: 60.1 %, against 52.5 % with LRU.
 */
import { GHOST_BUCKET_BYTES, ghostBuckets, ghostStart, indexSlots } from '../layout';
import { idHashOf } from './entry';
import { entries, forget, isCrowded, relink, unlink } from './index';
import {
  ABSENCE,
  DEAD,
  ENTRY,
  frequencyOf,
  kindOf,
  markDead,
  RECORD_HEADER_BYTES,
  setFrequency,
  sizeOf,
  storedAtOf,
} from './record';

const MAX_REINSERTIONS: u32 = 8;

/** Number of entries evicted to free space, and of compressed forms evicted from the main ring. */
export let evictions: f64 = 0;
/** number of ghosts that there ever were */
let deaths: u32 = 0;

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

function freeIn(ring: Ring): usize {
  return ring.end - ring.start - ring.used;
}

/** Allocates a record at the head; returns 0 if space is short. The caller writes the record at once. */
function claim(ring: Ring, size: u32): usize {
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
function pop(ring: Ring): usize {
  const record = ring.tail;
  const size = sizeOf(record);
  ring.used -= size;
  ring.tail += size;
  if (ring.tail === ring.end) ring.tail = ring.start;
  return record;
}

/** Allocates in the small ring, and evicts until there is room. A record of this size must fit. */
export function claimSmall(size: u32): usize {
  while (true) {
    const record = claim(SMALL, size);
    if (record !== 0) return record;
    evictFromSmall();
  }
}

/** Allocates in the main ring, and evicts until there is room. A record of this size must fit. */
export function claimMain(size: u32): usize {
  let rounds: u32 = 0;
  while (true) {
    const record = claim(MAIN, size);
    if (record !== 0) return record;
    if (evictFromMain(rounds < MAX_REINSERTIONS)) rounds++;
  }
}

/** Evicts records until the index has room for the keys of one more. Only small hotels fill the index first. */
export function relieveIndex(): void {
  let rounds: u32 = 0;
  while (isCrowded(3)) {
    if (SMALL.used > 0 && SMALL.used * 9 >= MAIN.used) evictFromSmall();
    else if (evictFromMain(rounds < MAX_REINSERTIONS)) rounds++;
  }
}

function evictFromSmall(): void {
  const record = pop(SMALL);
  const kind = kindOf(record);
  if (kind === DEAD) return;
  if (kind !== ABSENCE) {
    if (frequencyOf(record) > 1 || hasRoomInMain()) {
      move(record, claimMain(sizeOf(record)), 0);
      return;
    }
    if (kind === ENTRY) {
      remember(record);
      evictions++;
    }
  }
  unlink(record);
}

/**
 * Returns true until the main ring, or the index, is first full, and after its oldest records were all dropped. The
 * space that single evictions leave free is less than 1/32.
 */
export function hasRoomInMain(): bool {
  while (MAIN.used > 0 && kindOf(MAIN.tail) === DEAD) pop(MAIN);
  return freeIn(MAIN) > (MAIN.end - MAIN.start) >> 5 && !isCrowded(indexSlots >> 5);
}

/** Returns true if the oldest record was reinserted instead of evicted. */
function evictFromMain(mayReinsert: bool): bool {
  const record = pop(MAIN);
  if (kindOf(record) === DEAD) return false;
  const frequency = frequencyOf(record);
  if (mayReinsert && frequency > 0) {
    // a claim fails here only at the end of the ring: one record in a round
    const to = claim(MAIN, sizeOf(record));
    if (to !== 0) {
      move(record, to, frequency - 1);
      return true;
    }
  }
  unlink(record);
  evictions++;
  return false;
}

function move(from: usize, to: usize, frequency: u8): void {
  memory.copy(to, from, sizeOf(from));
  setFrequency(to, frequency);
  relink(from, to);
}

/**
 * Leaves a ghost of an entry that left the small ring without a second hit, or was dropped from the main ring. A bucket holds
 * four, each a u32 hash of the id and the u32 number of its eviction; a new ghost replaces the oldest.
 */
export function remember(record: usize): void {
  const hash = idHashOf(record + RECORD_HEADER_BYTES);
  deaths++;
  const bucket = ghostsAt(hash);
  let oldest = bucket;
  for (let at = bucket; at < bucket + GHOST_BUCKET_BYTES; at += 8) {
    if (deaths - load<u32>(at, 4) > deaths - load<u32>(oldest, 4)) oldest = at;
  }
  store<u32>(oldest, <u32>hash);
  store<u32>(oldest, deaths, 4);
}

/**
 * Returns true if there is a ghost of this hash, and removes it. A ghost is valid while fewer ghosts have followed it than the
 * arena holds entries, as in the paper's queue.
 */
export function recall(hash: u64): bool {
  const bucket = ghostsAt(hash);
  for (let at = bucket; at < bucket + GHOST_BUCKET_BYTES; at += 8) {
    if (load<u32>(at) === <u32>hash && load<u32>(at, 4) !== 0) {
      const isYoung = deaths - load<u32>(at, 4) < entries;
      store<u64>(at, 0);
      return isYoung;
    }
  }
  return false;
}

function ghostsAt(hash: u64): usize {
  return ghostStart + <usize>(((hash >> 32) * ghostBuckets) >> 32) * GHOST_BUCKET_BYTES;
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
