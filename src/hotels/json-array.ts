import type { Found, View } from './entry.ts';

const COMMA = 0x2c;
const CLOSE = 0x5d;
export const EMPTY_ARRAY = Buffer.from('[]');

/** Shared space for responses: allocating a megabyte for each would keep the garbage collector busy. */
let area = Buffer.allocUnsafe(2 * 1024 * 1024);
/** Larger responses get their own memory. */
const MAX_AREA_BYTES = 16 * 1024 * 1024;

/** Returns the JSON array of the hotels found. The bytes are valid until the next call of this or of `fillGaps`. */
export function joinBodies(found: readonly (Found | undefined)[], view: View): Buffer {
  return fillGaps(EMPTY_ARRAY, new Array(found.length).fill(1), found, view);
}

/**
 * Inserts the bodies of the hotels found into the array `hits` (`[body,body,…]`). `places` are the ascending offsets for
 * each body and a comma. The bytes are valid until the next call of this or of `joinBodies`.
 */
export function fillGaps(
  hits: Buffer,
  places: readonly number[],
  found: readonly (Found | undefined)[],
  view: View,
): Buffer {
  let length = hits.length;
  for (const entry of found) if (entry) length += entry.bodyLength(view) + 1;
  const target = room(length);
  // each piece ends with a comma; the bracket replaces the last one
  const hitsEnd = hits.length > EMPTY_ARRAY.length ? hits.length : 1;
  let at = 0;
  let taken = 0;
  const takeHits = (end: number) => {
    if (end === taken) return;
    at += hits.copy(target, at, taken, end);
    taken = end;
    if (end === hits.length) target[at - 1] = COMMA;
  };
  for (const [i, entry] of found.entries()) {
    if (!entry) continue;
    takeHits(places[i]!);
    at = entry.copyBody(view, target, at);
    target[at++] = COMMA;
  }
  takeHits(hitsEnd);
  if (at === 1) at++;
  target[at - 1] = CLOSE;
  return target.subarray(0, at);
}

function room(length: number): Buffer {
  if (length <= area.length) return area;
  if (length > MAX_AREA_BYTES) return Buffer.allocUnsafe(length);
  area = Buffer.allocUnsafe(Math.min(MAX_AREA_BYTES, 2 * length));
  return area;
}
