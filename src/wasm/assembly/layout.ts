/** Layout of the one memory: parts of fixed size, then those sized by the budget of the local cache, then the output. */

import { WINDOW_BUCKETS as BUCKETS, MAX_KEYS, MAX_RESPONSE_BYTES } from '../constants';

/** Results of a call beside its return value. */
export const RESULT: usize = 64;
/** Elements of a batch, 16 bytes each: u32 key address, u32 key length, u32 hash, u32 ref. */
export const ELEMENTS: usize = 1024;
export const ELEMENT_BYTES: usize = 16;
export const MAX_ELEMENTS: u32 = MAX_KEYS;
/** Misses of a batch, 8 bytes each: u32 index of the element, u32 offset in the output. */
export const GAPS: usize = ELEMENTS + 0x4000;
/** Hashes of the keys of a batch, then of the ids of its hits, u64 each. */
export const HASHES: usize = GAPS + 0x2000;
/** Space for one 64-bit integer an element, for numbers written with a fraction or an exponent. */
export const NUMBERS: usize = HASHES + 0x2000;
export const NUMBER_BYTES: usize = 20;
/** Keys and request bodies that the caller writes: the longest body, and the vector of zeros that ends it. */
export const INPUT: usize = NUMBERS + 0x5500;
export const INPUT_BYTES: u32 = 0x100000;

/** Prefix of every key of a command. */
export const PREFIX: usize = INPUT + INPUT_BYTES + 0x100;
/** Indexes of the missed keys by hash, u16 each, to find repetitions. */
export const SEEN: usize = PREFIX + 0x1000;
export const SEEN_SLOTS: u32 = 4096;
/** Places of the values in REPLY: i32 start and i32 length of each, length -1 for null. */
export const PLACES: usize = SEEN + 0x2000;
/** Table (redis-batch/pending-keys.ts) of the batch in progress. */
export const SCRATCH: usize = PLACES + 0x2000;
/** Command for Redis. */
export const COMMAND: usize = SCRATCH + 0x240000;
/** Reply with pointers or entries: 1000 of the longest entries have room. */
export const REPLY: usize = COMMAND + 0x2e0000;
export const REPLY_BYTES: u32 = 0x4400000;
/** Response of the batch in progress. */
export const RESPONSE: usize = REPLY + REPLY_BYTES;
export const RESPONSE_BYTES: u32 = MAX_RESPONSE_BYTES;
/** Buckets of the window (redis-batch/entries.ts), 8 bytes each, and its floor. */
export const WINDOW: usize = (RESPONSE + RESPONSE_BYTES + 63) & ~63;
export const WINDOW_BUCKETS: u32 = BUCKETS;
/** Sets of redis-batch/pointer-cache.ts, 160 bytes each: 10 MiB for 262,144 pointers. */
export const POINTER_CACHE: usize = WINDOW + 8 * WINDOW_BUCKETS + 64;
export const POINTER_SETS: u32 = 0x10000;
const FIXED_END: usize = POINTER_CACHE + 160 * POINTER_SETS;

export const SLOT_BYTES: usize = 8;
export const GHOST_BUCKET_BYTES: usize = 32;

export let indexStart: usize = 0;
export let indexSlots: u32 = 0;
export let ghostStart: usize = 0;
export let ghostBuckets: u32 = 0;
export let smallStart: usize = 0;
export let mainStart: usize = 0;
export let mainEnd: usize = 0;
export let outputStart: usize = 0;
export let outputEnd: usize = 0;

/**
 * Divides the budget in bytes; with 0 every lookup misses. The index has a slot for each 256 bytes: hotels of 1 kB with three
 * keys fill two thirds of it. There is a ghost for each 1024 bytes, about as many as hotels in the main ring. Only 1/64 of
 * the output counts; larger responses make more of it resident, up to `outputBytes`.
 */
export function divide(maxBytes: u32, outputBytes: u32): void {
  indexStart = FIXED_END;
  indexSlots = max<u32>(maxBytes >> 8, 8);
  ghostStart = indexStart + indexSlots * SLOT_BYTES;
  ghostBuckets = maxBytes >> 12;
  smallStart = ghostStart + ghostBuckets * GHOST_BUCKET_BYTES;
  const forRings: usize = maxBytes === 0 ? 0 : maxBytes - (maxBytes >> 6) - <u32>(smallStart - indexStart);
  mainStart = (smallStart + forRings / 10) & ~63;
  mainEnd = (smallStart + forRings) & ~63;
  outputStart = mainEnd;
  outputEnd = outputStart + outputBytes;
}
