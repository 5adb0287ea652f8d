import { clearTimer, every, monotonicMs, type Timer } from '../lib/clock.ts';

/** Bytes that must move in each window: 16 KB/s in the 10 s of a response, as the HTTP library demands of bodies. */
const MIN_PACED_BYTES = 160 * 1024;
const PACE_CHECK_EVERY_MS = 500;

/** A body or a response on its way. Its sender or receiver counts. */
export interface Transfer {
  bytes: number;
}

interface Watched extends Transfer {
  windowMs: number;
  tooSlow: () => void;
  /** at the start of the window */
  bytesBefore: number;
  endsAtMs: number;
}

/** in order of their beginning */
const all = new Set<Watched>();
let checking: Timer | undefined;

/** Watches a transfer until `endPace`. Calls `tooSlow` once if fewer than `MIN_PACED_BYTES` move in `windowMs`. */
export function beginPace(windowMs: number, tooSlow: () => void): Transfer {
  const watched = { bytes: 0, windowMs, tooSlow, bytesBefore: 0, endsAtMs: monotonicMs() + windowMs };
  all.add(watched);
  checking ??= every(check, PACE_CHECK_EVERY_MS);
  return watched;
}

export function endPace(transfer: Transfer): void {
  all.delete(transfer as Watched);
  if (all.size > 0) return;
  clearTimer(checking);
  checking = undefined;
}

function check(): void {
  const nowMs = monotonicMs();
  for (const watched of all) {
    if (watched.bytes - watched.bytesBefore >= MIN_PACED_BYTES) {
      watched.bytesBefore = watched.bytes;
      watched.endsAtMs = nowMs + watched.windowMs;
    } else if (nowMs >= watched.endsAtMs) {
      endPace(watched);
      watched.tooSlow();
    }
  }
}
