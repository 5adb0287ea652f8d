import type { HttpResponse } from 'uWebSockets.js';
import { type Body, LargeBody } from '../hotels/json-array.ts';
import { BufferPool } from '../lib/buffer-pool.ts';
import { HeldBytes } from '../lib/held-bytes.ts';
import { beginPace, endPace, type Transfer } from './pace.ts';

/** Size of the pieces in which longer bodies are kept. */
const BACKLOG_PIECE_BYTES = 2 * 1024 * 1024;
/** Buffers of response bytes that the kernel has not taken. */
const pool = new BufferPool([512 * 1024, BACKLOG_PIECE_BYTES], 32 * 1024 * 1024);
/**
 * Per-worker limit on buffered unsent bytes. When it is exceeded, the client of the API key with the most of them that has
 * waited longest is disconnected.
 */
export const MAX_BACKLOG_BYTES = 128 * 1024 * 1024;
const BACKLOG_WINDOW_MS = 10_000;

/** The unsent rest of a response. */
export interface PendingWrite {
  readonly body: Body;
  /** counts what the kernel has taken, updated by the sender */
  readonly taken: Transfer;
  /** buffers of the pool, released with the write */
  readonly copies: Buffer[];
  readonly disconnect: () => void;
}

/** those whose bytes do not belong to the caller */
const backlog = new HeldBytes<PendingWrite>();

/**
 * Keeps a body until `release`, bytes as a copy if they may be overwritten. Calls `disconnect` if the client is too
 * slow, or if the buffer is full and it is the client to disconnect; the caller must then return the bytes.
 */
export function keep(
  body: Body,
  mayBeOverwritten: boolean,
  owner: string,
  disconnect: () => void,
): PendingWrite {
  const heldBytes = mayBeOverwritten ? body.length : 0;
  while (backlog.total > 0 && backlog.total + heldBytes > MAX_BACKLOG_BYTES)
    backlog.firstOfLargest()!.disconnect();
  const copies: Buffer[] = [];
  if (mayBeOverwritten && body instanceof Uint8Array)
    for (let at = 0; at < body.length; at += BACKLOG_PIECE_BYTES)
      copies.push(pool.copy(body.subarray(at, at + BACKLOG_PIECE_BYTES)));
  const kept = {
    body: copies.length > 1 ? new LargeBody(copies) : (copies[0] ?? body),
    copies,
    disconnect,
    taken: beginPace(BACKLOG_WINDOW_MS, disconnect),
  };
  if (heldBytes > 0) backlog.set(kept, owner, heldBytes);
  return kept;
}

/** Releases what `keep` returned. Its bytes must not be read afterwards. */
export function release(pending: PendingWrite): void {
  endPace(pending.taken);
  backlog.delete(pending);
  for (const copy of pending.copies.splice(0)) pool.release(copy);
}

/**
 * Writes the part of a body that the kernel has not taken yet, as far as it takes it. The body begins at offset `start` of a
 * response of `total` bytes. Returns as `tryEnd` does.
 */
export function writeOn(
  response: HttpResponse,
  body: Body,
  start: number,
  total: number,
): [boolean, boolean] {
  while (true) {
    const at = response.getWriteOffset() - start;
    const bytes = body instanceof Uint8Array ? body.subarray(at) : body.bytesFrom(at);
    const [ok, done] = response.tryEnd(bytes, total);
    if (!ok || done) return [ok, done];
  }
}
