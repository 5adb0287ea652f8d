import { BufferPool } from '../lib/buffer-pool.ts';
import { clearTimer, every, monotonicMs, type Timer } from '../lib/clock.ts';

/** Buffers of response bytes that the kernel has not taken. */
const pool = new BufferPool([512 * 1024, 2 * 1024 * 1024], 32 * 1024 * 1024);
/**
 * Per-worker limit on buffered unsent bytes. When it is exceeded, the slowest client of the API key with the most of them is
 * disconnected.
 */
export const MAX_BACKLOG_BYTES = 256 * 1024 * 1024;
/** A client that takes fewer bytes than this in `WINDOW_MS` is disconnected. Request bodies must arrive as fast. */
const MIN_TAKEN_BYTES = 160 * 1024;
const WINDOW_MS = 10_000;
const CHECK_EVERY_MS = 500;

/** The unsent rest of a response. */
export interface PendingWrite {
  readonly bytes: Buffer;
  /** number of bytes taken by the kernel, updated by the sender */
  taken: number;
}

interface BackloggedWrite extends PendingWrite {
  /** the API key whose share it uses */
  owner: string;
  disconnect: () => void;
  /** 0 if the bytes belong to the caller */
  copiedBytes: number;
  windowEndsAtMs: number;
  takenBefore: number;
}

/** in order of arrival */
const all = new Set<BackloggedWrite>();
let backlogBytes = 0;
let checking: Timer | undefined;

/**
 * Keeps the bytes until `release`, as a copy if they may be overwritten. Calls `disconnect` if the client is too
 * slow, or if the buffer is full and it is the client to disconnect; the caller must then return the bytes.
 */
export function keep(
  bytes: Uint8Array,
  mayBeOverwritten: boolean,
  owner: string,
  disconnect: () => void,
): PendingWrite {
  const copiedBytes = mayBeOverwritten ? bytes.length : 0;
  while (backlogBytes > 0 && backlogBytes + copiedBytes > MAX_BACKLOG_BYTES) disconnectLargest();
  const kept = {
    owner,
    bytes: mayBeOverwritten ? pool.copy(bytes) : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length),
    copiedBytes,
    taken: 0,
    disconnect,
    windowEndsAtMs: monotonicMs() + WINDOW_MS,
    takenBefore: 0,
  };
  backlogBytes += copiedBytes;
  all.add(kept);
  checking ??= every(disconnectSlowest, CHECK_EVERY_MS);
  return kept;
}

/** Releases what `keep` returned. Its bytes must not be read afterwards. */
export function release(pending: PendingWrite): void {
  const { bytes, copiedBytes } = pending as BackloggedWrite;
  if (!all.delete(pending as BackloggedWrite)) return;
  backlogBytes -= copiedBytes;
  if (copiedBytes > 0) pool.release(bytes);
  if (all.size > 0) return;
  clearTimer(checking);
  checking = undefined;
}

/** Disconnects the client that has waited longest among those of the owner with the most bytes. */
function disconnectLargest(): void {
  const bytesOf = new Map<string, number>();
  for (const { owner, copiedBytes } of all) bytesOf.set(owner, (bytesOf.get(owner) ?? 0) + copiedBytes);
  const most = Math.max(...bytesOf.values());
  for (const kept of all) {
    if (bytesOf.get(kept.owner) !== most || kept.copiedBytes === 0) continue;
    kept.disconnect();
    return;
  }
}

function disconnectSlowest(): void {
  const nowMs = monotonicMs();
  for (const kept of all) {
    if (nowMs < kept.windowEndsAtMs) continue;
    if (kept.taken - kept.takenBefore < MIN_TAKEN_BYTES) {
      kept.disconnect();
      continue;
    }
    kept.takenBefore = kept.taken;
    kept.windowEndsAtMs = nowMs + WINDOW_MS;
  }
}
