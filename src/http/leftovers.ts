/**
 * What the kernel has not yet taken of an answer is kept in buffers that are used again: allocating a megabyte
 * for each large answer costs more than copying it.
 */
const BUFFER_BYTES = 2 * 1024 * 1024;
const MAX_FREE = 16;
const free: Buffer[] = [];

/** A copy of the bytes; `giveBack` it when it is no longer needed. */
export function keep(bytes: Uint8Array): Buffer {
  if (bytes.length > BUFFER_BYTES) return Buffer.from(bytes);
  const buffer = free.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES);
  buffer.set(bytes);
  return buffer.subarray(0, bytes.length);
}

/** Takes a buffer of `keep` back. Nobody may look at it afterwards. */
export function giveBack(kept: Buffer): void {
  if (kept.buffer.byteLength === BUFFER_BYTES && free.length < MAX_FREE) free.push(Buffer.from(kept.buffer));
}
