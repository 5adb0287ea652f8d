/** How the answer to a batch is written: `[body,body,…]`, and beside it where something is missing. */

/** `null}` as little-endian numbers */
const NULL: u32 = 0x6c6c756e;
const CLOSING: u8 = 0x7d;
const OPENING_BRACKET: u8 = 0x5b;
const COMMA: u8 = 0x2c;
const CLOSING_BRACKET: u8 = 0x5d;

/** What stands behind the part of a body that both views have, with the comma: at most so many bytes. */
export const MAX_END_BYTES: u32 = 8;
/** A gap: u32 number of what is missing, u32 where in the answer it belongs. */
export const GAP_BYTES: usize = 8;

/** Begins an array; returns where its first body belongs. */
export function openArray(start: usize): usize {
  store<u8>(start, OPENING_BRACKET);
  return start + 1;
}

/** Ends the narrow view of a body; returns where it ends. */
export function endNarrow(output: usize): usize {
  store<u32>(output, NULL);
  store<u8>(output, CLOSING, 4);
  return output + 5;
}

/** Ends a body; returns where the next belongs. */
export function endBody(output: usize, isFull: bool): usize {
  if (!isFull) output = endNarrow(output);
  store<u8>(output, COMMA);
  return output + 1;
}

/** Ends the array in which the next body would belong at `output`; returns its length. */
export function closeArray(start: usize, output: usize): u32 {
  // the last comma becomes the bracket; without a body there is none
  if (output === start + 1) output++;
  store<u8>(output - 1, CLOSING_BRACKET);
  return <u32>(output - start);
}

export function writeGap(gap: usize, number: u32, place: u32): void {
  store<u32>(gap, number);
  store<u32>(gap, place, 4);
}
