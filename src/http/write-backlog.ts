import type { HttpResponse } from 'uWebSockets.js';
import type { Body } from '../hotels/json-array.ts';
import { BufferPool } from '../lib/buffer-pool.ts';
import { HeldBytes } from '../lib/held-bytes.ts';
import { beginPace, endPace, type Transfer } from './pace.ts';

/** Buffers of response bytes that the kernel has not taken. */
const pool = new BufferPool([512 * 1024, 2 * 1024 * 1024], 32 * 1024 * 1024);
/**
 * Per-worker limit on buffered unsent bytes. When it is exceeded, the client of the API key with the most of them that has
 * waited longest is disconnected.
 */
export const MAX_BACKLOG_BYTES = 256 * 1024 * 1024;
const BACKLOG_WINDOW_MS = 10_000;

/** The unsent rest of a response. */
export interface PendingWrite {
  readonly body: Body;
  /** counts what the kernel has taken, updated by the sender */
  readonly taken: Transfer;
}

interface BackloggedWrite extends PendingWrite {
  disconnect: () => void;
}

const all = new Set<PendingWrite>();
/** those whose bytes do not belong to the caller */
const backlog = new HeldBytes<BackloggedWrite>();

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
  const kept = {
    body: mayBeOverwritten && body instanceof Uint8Array ? pool.copy(body) : body,
    disconnect,
    taken: beginPace(BACKLOG_WINDOW_MS, disconnect),
  };
  if (heldBytes > 0) backlog.set(kept, owner, heldBytes);
  all.add(kept);
  return kept;
}

/** Releases what `keep` returned. Its bytes must not be read afterwards. */
export function release(pending: PendingWrite): void {
  const { body, taken } = pending;
  if (!all.delete(pending)) return;
  endPace(taken);
  backlog.delete(pending as BackloggedWrite);
  if (Buffer.isBuffer(body)) pool.release(body);
}

/** Writes a body of a response of `total` bytes from an offset on, as far as the kernel takes it. Returns as `tryEnd` does. */
export function writeFrom(
  response: HttpResponse,
  body: Body,
  from: number,
  total: number,
): [boolean, boolean] {
  if (body instanceof Uint8Array) return response.tryEnd(body.subarray(from), total);
  for (let at = from; ; ) {
    const [ok, done] = response.tryEnd(body.bytesFrom(at), total);
    if (!ok || done) return [ok, done];
    at = response.getWriteOffset();
  }
}
