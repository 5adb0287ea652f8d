import type { Found, View } from '../hotels/entry.ts';

const OPEN = 0x5b;
const COMMA = 0x2c;
const CLOSE = 0x5d;

/** Answers are assembled here: a megabyte from the heap for each would keep the garbage collector at work. */
let area = Buffer.allocUnsafe(2 * 1024 * 1024);
/** Larger answers than this get memory of their own. */
const MAX_AREA_BYTES = 16 * 1024 * 1024;

/** The JSON array of those hotels that were found. The bytes hold until the next call. */
export function joinBodies(found: readonly Found[], view: View): Buffer {
  let length = 2;
  for (const entry of found) if (entry !== null) length += entry.bodyLength(view) + 1;
  const target = room(length);
  let offset = 0;
  target[offset++] = OPEN;
  for (const entry of found) {
    if (entry === null) continue;
    if (offset > 1) target[offset++] = COMMA;
    offset = entry.copyBody(view, target, offset);
  }
  target[offset++] = CLOSE;
  return target.subarray(0, offset);
}

function room(length: number): Buffer {
  if (length <= area.length) return area;
  if (length > MAX_AREA_BYTES) return Buffer.allocUnsafe(length);
  area = Buffer.allocUnsafe(Math.min(MAX_AREA_BYTES, 2 * length));
  return area;
}
