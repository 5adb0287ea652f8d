import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { promisedMs } from './run-length.ts';

/** Interval of the checks for stalls. */
const TICK_MS = 20;
/** Duration of an event-loop iteration that is no stall. */
const MAX_ITERATION_MS = 20;
/** Pause between two checks of a condition. */
const PAUSE_MS = 20;

let stalledMs = 0;
/** older stalls are dropped */
const MAX_STALLS = 1_000;
const stalls: { atMs: number; ms: number }[] = [];
let dueAtMs = performance.now() + TICK_MS;

const lateMs = () => Math.max(0, performance.now() - dueAtMs - MAX_ITERATION_MS);

function tick(): void {
  const ms = lateMs();
  if (ms > 0) {
    stalls.push({ atMs: ownTimeMs(), ms });
    if (stalls.length > MAX_STALLS) stalls.shift();
    stalledMs += ms;
  }
  dueAtMs = performance.now() + TICK_MS;
  setTimeout(tick, TICK_MS).unref();
}
setTimeout(tick, TICK_MS).unref();

/**
 * Returns a clock in ms that stops during stalls of this process's event loop. A response may then be in time but
 * unread, and a request late.
 */
export function ownTimeMs(): number {
  return performance.now() - stalledMs - lateMs();
}

/** Returns the stalls in ms within the last `ownMs` of this process's own time. */
export function stalledIn(ownMs: number): number {
  const sinceMs = ownTimeMs() - ownMs;
  return stalls.reduce((sum, { atMs, ms }) => (atMs >= sinceMs ? sum + ms : sum), lateMs());
}

/**
 * Polls until the result passes `check`, for at most this many ms (`promisedMs`) of this process's own time; then throws the
 * error of `check`. Returns the result.
 */
export async function within<T>(
  timeoutMs: number,
  send: () => T | Promise<T>,
  check: (found: T) => void,
): Promise<T> {
  const beganMs = ownTimeMs();
  for (;;) {
    const found = await send();
    const tookMs = ownTimeMs() - beganMs;
    try {
      check(found);
      return found;
    } catch (error) {
      if (tookMs > promisedMs(timeoutMs)) throw error;
    }
    await sleep(PAUSE_MS);
  }
}

/** Polls like `within` until the result equals `expected`. Returns the result. */
export function untilEqual<T>(timeoutMs: number, send: () => T | Promise<T>, expected: unknown): Promise<T> {
  return within(timeoutMs, send, (found) => expect(found).toEqual(expected));
}
