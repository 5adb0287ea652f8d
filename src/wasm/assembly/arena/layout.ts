/**
 * Where things are in the arena's memory. In order: results, elements, gaps, numbers, input at fixed places; then,
 * sized by the budget, the index, the ghosts, the small ring, the main ring; last the output.
 */

/** What a call has to say beside its return value; src/cache/arena/arena.ts knows the fields by their place. */
export const RESULT: usize = 64;
/** What a batch asks for, 16 bytes each: u32 key address, u32 key length, u32 hash, u32 ref. */
export const ELEMENTS: usize = 1024;
export const ELEMENT_BYTES: usize = 16;
export const MAX_ELEMENTS: u32 = 1000;
/** What a batch missed, 8 bytes each: u32 number of the element, u32 where in the output it belongs. */
export const GAPS: usize = ELEMENTS + 16384;
/** Room for an integer of 64 bits for each element, where it was written with a fraction or an exponent. */
export const NUMBERS: usize = GAPS + 8192;
export const NUMBER_BYTES: usize = 20;
/** Keys, and bodies of requests, on their way in. 1000 keys of the greatest length fit. */
export const INPUT: usize = NUMBERS + 20480;
export const INPUT_BYTES: u32 = 262144;
/** Behind the input a parser puts a vector of zeros; then there is room for the key of a compressed form. */
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
 * Divides the budget. A slot for each 256 bytes: hotels of 1 kB with three keys each fill two thirds of
 * the index. A ghost for each 1024 bytes: as many as the main ring holds hotels, which is what S3-FIFO asks.
 * Of the output only 1/64 counts (2 MiB of 128: a batch of 1000 hotels of 2 kB); more of it becomes resident
 * only when an answer is larger, up to `outputBytes`.
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
