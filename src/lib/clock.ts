// the global of this name is a getter, which V8 calls anew at every use
import { performance } from 'node:perf_hooks';

/** How often the two clocks are compared. */
const COMPARE_MS = 100;
/** A difference between them that changes by more at once is a step of the wall clock. */
const STEP_MS = 1_000;

let wallAheadMs = Date.now() - performance.now();
const listeners: ((byMs: number) => void)[] = [];

/** Milliseconds since this process began, by a clock that is never set. Every age is measured by it. */
export function monotonicMs(): number {
  return performance.now();
}

/** The same since the system began: one clock for all processes of a machine. */
export function systemMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
}

/**
 * The wall clock (epoch ms) at a moment of the monotonic one. It costs no second look at a clock; a step of the wall
 * clock is noticed within 100 ms.
 */
export function wallAt(nowMs: number): number {
  return nowMs + wallAheadMs;
}

/**
 * Calls back when the wall clock was set, with by how much. It is also ahead after the machine has slept, for then the
 * monotonic clock stands still.
 */
export function onClockStep(listener: (byMs: number) => void): void {
  listeners.push(listener);
}

/** Compares the clocks; happens by itself ten times a second. */
export function compareClocks(): void {
  const aheadMs = Date.now() - performance.now();
  const byMs = aheadMs - wallAheadMs;
  wallAheadMs = aheadMs;
  if (Math.abs(byMs) > STEP_MS) for (const listener of listeners) listener(byMs);
}

setInterval(compareClocks, COMPARE_MS).unref();
