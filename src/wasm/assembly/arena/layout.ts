/**
 * Layout of the arena's memory. Fixed places come first: results, elements, gaps, hashes, numbers,
 * input. The parts sized by the
 * budget follow: index, ghosts, small ring, main ring. The output is last.
 */

/** Results of a call beside its return value; src/cache/arena/arena.ts knows the fields by position. */
export const RESULT: usize = 64;
/** Elements of a batch, 16 bytes each: u32 key address, u32 key length, u32 hash, u32 ref. */
export const ELEMENTS: usize = 1024;
export const ELEMENT_BYTES: usize = 16;
export const MAX_ELEMENTS: u32 = 1000;
/** Misses of a batch, 8 bytes each: u32 index of the element, u32 offset in the output. */
export const GAPS: usize = ELEMENTS + 16384;
/** Hashes of the ids of a batch's hits, u64 each. */
export const HASHES: usize = GAPS + 8192;
/** Space for one 64-bit integer an element, for numbers written with a fraction or an exponent. */
export const NUMBERS: usize = HASHES + 8192;
export const NUMBER_BYTES: usize = 20;
/** Keys and request bodies that the caller writes: room for 1000 keys of maximum length. */
export const INPUT: usize = NUMBERS + 20480;
export const INPUT_BYTES: u32 = 262144;
/** Space for the key of a compressed form, behind the vector of zeros that ends the input. */
export const FORM_KEY: usize = INPUT + 262144 + 64;
const FIXED_END: usize = FORM_KEY + 384;

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
 * Divides the budget in bytes. The index has a slot for each 256 bytes: hotels of 1 kB with three keys fill two thirds of
 * it. There is a ghost for each 1024 bytes, about as many as hotels in the main ring. Only 1/64 of the output counts;
 * larger responses make more of it resident, up to `outputBytes`.
 */
export function divide(maxBytes: u32, outputBytes: u32): void {
  indexStart = FIXED_END;
  indexSlots = maxBytes >> 8;
  ghostStart = indexStart + indexSlots * SLOT_BYTES;
  ghostBuckets = maxBytes >> 12;
  smallStart = ghostStart + ghostBuckets * GHOST_BUCKET_BYTES;
  const forRings: usize = maxBytes - (maxBytes >> 6) - smallStart;
  mainStart = (smallStart + forRings / 10) & ~63;
  mainEnd = (smallStart + forRings) & ~63;
  outputStart = mainEnd;
  outputEnd = outputStart + outputBytes;
}
