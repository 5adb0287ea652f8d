import { BufferPool } from '../lib/buffer-pool.ts';

/** Of what the kernel has not yet taken of an answer. */
const pool = new BufferPool([512 * 1024, 2 * 1024 * 1024], 32 * 1024 * 1024);
/** Of a worker; past it the client that has kept its answer waiting longest is given up. */
export const MAX_BACKLOG_BYTES = 256 * 1024 * 1024;
/** A client that takes less than this in `WINDOW_MS` is given up. Bodies of requests have to come as fast. */
const LEAST_TAKEN_BYTES = 160 * 1024;
const WINDOW_MS = 10_000;
const LOOK_EVERY_MS = 500;

/** The rest of an answer. */
export interface PendingWrite {
  readonly bytes: Buffer;
  /** how many of the bytes the kernel has taken; whoever sends them says so here */
  taken: number;
}

interface BackloggedWrite extends PendingWrite {
  disconnect: () => void;
  /** 0 where the bytes are the caller's own */
  copiedBytes: number;
  windowEndsAtMs: number;
  takenBefore: number;
}

/** in the order in which they came */
const all = new Set<BackloggedWrite>();
let backlogBytes = 0;
let looking: NodeJS.Timeout | undefined;

/**
 * Keeps the bytes until `giveBack`: a copy of them where they may be overwritten meanwhile. `giveUp` is called when
 * the client takes them too slowly, or has kept copies longest when there is no room for more; it must give them back.
 */
export function keep(bytes: Uint8Array, mayBeOverwritten: boolean, disconnect: () => void): PendingWrite {
  const copiedBytes = mayBeOverwritten ? bytes.length : 0;
  for (const kept of all) {
    if (backlogBytes + copiedBytes <= MAX_BACKLOG_BYTES) break;
    if (kept.copiedBytes > 0) kept.disconnect();
  }
  const kept = {
    bytes: mayBeOverwritten ? pool.copy(bytes) : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length),
    copiedBytes,
    taken: 0,
    disconnect,
    windowEndsAtMs: performance.now() + WINDOW_MS,
    takenBefore: 0,
  };
  backlogBytes += copiedBytes;
  all.add(kept);
  looking ??= setInterval(disconnectSlowest, LOOK_EVERY_MS);
  return kept;
}

/** Takes back what `keep` returned. Nobody may look at its bytes afterwards. */
export function giveBack(pending: PendingWrite): void {
  const { bytes, copiedBytes } = pending as BackloggedWrite;
  if (!all.delete(pending as BackloggedWrite)) return;
  backlogBytes -= copiedBytes;
  if (copiedBytes > 0) pool.giveBack(bytes);
  if (all.size > 0) return;
  clearInterval(looking);
  looking = undefined;
}

function disconnectSlowest(): void {
  const nowMs = performance.now();
  for (const kept of all) {
    if (nowMs < kept.windowEndsAtMs) continue;
    if (kept.taken - kept.takenBefore < LEAST_TAKEN_BYTES) {
      kept.disconnect();
      continue;
    }
    kept.takenBefore = kept.taken;
    kept.windowEndsAtMs = nowMs + WINDOW_MS;
  }
}
