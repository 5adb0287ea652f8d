/** Writer of batch responses: `[body,body,…]` and the list of gaps. */

/** `null` as a little-endian number */
const NULL: u32 = 0x6c6c756e;
const CLOSING: u8 = 0x7d;
const OPENING_BRACKET: u8 = 0x5b;
const COMMA: u8 = 0x2c;
const CLOSING_BRACKET: u8 = 0x5d;

/** Maximum length of the part behind the shared body, comma included. */
export const MAX_END_BYTES: u32 = 8;
/** Gap: u32 index of the missing element, u32 offset in the response. */
export const GAP_BYTES: usize = 8;

/** Begins an array; returns the address of its first body. */
export function openArray(start: usize): usize {
  store<u8>(start, OPENING_BRACKET);
  return start + 1;
}

/** Ends the narrow view of a body; returns the address behind it. */
export function endNarrow(output: usize): usize {
  store<u32>(output, NULL);
  store<u8>(output, CLOSING, 4);
  return output + 5;
}

/** Ends a body; returns the address of the next. */
export function endBody(output: usize, isFull: bool): usize {
  if (!isFull) output = endNarrow(output);
  store<u8>(output, COMMA);
  return output + 1;
}

/** Ends the array whose next body would be at `output`; returns its length in bytes. */
export function closeArray(start: usize, output: usize): u32 {
  // the last comma becomes the bracket; an empty array has no comma
  if (output === start + 1) output++;
  store<u8>(output - 1, CLOSING_BRACKET);
  return <u32>(output - start);
}

export function writeGap(gap: usize, number: u32, place: u32): void {
  store<u32>(gap, number);
  store<u32>(gap, place, 4);
}
