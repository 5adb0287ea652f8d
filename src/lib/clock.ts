import os from 'node:os';
// the global `performance` is a getter, which V8 calls at every use
import { performance } from 'node:perf_hooks';

/** Interval of comparing the two clocks. Whatever else runs as often uses the same timer: each wakes an idle process. */
const TICK_MS = 100;
/** A change of their difference by more than this is a step of the wall clock. */
const STEP_MS = 1_000;

let wallAheadMs = Date.now() - performance.now();
let sleptMs = sleepOfMachineMs();
const listeners: ((byMs: number, sleptMs: number) => void)[] = [];
const tickListeners: ((lateMs: number) => void)[] = [];

/** Returns milliseconds since this process began, from a clock that is never set. All ages are measured by it. */
export function monotonicMs(): number {
  return performance.now();
}

/** Returns milliseconds since the system booted: one clock for all processes of a machine. */
export function systemMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
}

/** Converts a time of `systemMs` to one of `monotonicMs`. If this process is stopped meanwhile, the time is too early. */
export function fromSystemMs(atMs: number): number {
  return monotonicMs() - systemMs() + atMs;
}

/** Converts a time of `monotonicMs` to one of `systemMs`. */
export function toSystemMs(atMs: number): number {
  return systemMs() - monotonicMs() + atMs;
}

/**
 * Converts a time of the monotonic clock to the wall clock (epoch ms) without reading a clock. A step of the wall clock
 * is noticed within 100 ms.
 */
export function wallAt(nowMs: number): number {
  return nowMs + wallAheadMs;
}

/**
 * Registers a callback for steps of the wall clock; it receives the size of the step in milliseconds. The step is also
 * positive after the machine has slept, because the monotonic clock stops then. `sleptMs`: how long it slept; 0 if the clock
 * was set.
 */
export function onClockStep(listener: (byMs: number, sleptMs: number) => void): void {
  listeners.push(listener);
}

/** Compares the clocks; a timer calls it ten times a second. */
export function compareClocks(): void {
  const aheadMs = Date.now() - performance.now();
  const byMs = aheadMs - wallAheadMs;
  wallAheadMs = aheadMs;
  if (Math.abs(byMs) <= STEP_MS) return;
  const sleptBeforeMs = sleptMs;
  sleptMs = sleepOfMachineMs();
  const sleepMs = sleptMs - sleptBeforeMs;
  for (const listener of listeners) listener(byMs, sleepMs > STEP_MS / 2 ? sleepMs : 0);
}

/** Returns a time that grows only while the machine sleeps: the clock of `os.uptime` goes on then, the monotonic one stops. */
function sleepOfMachineMs(): number {
  return os.uptime() * 1e3 - performance.now();
}

/** Registers a callback that is called ten times a second. It receives how late it is called, in milliseconds. */
export function onTick(listener: (lateMs: number) => void): void {
  tickListeners.push(listener);
}

let dueAtMs = performance.now() + TICK_MS;
setInterval(() => {
  const nowMs = performance.now();
  compareClocks();
  for (const listener of tickListeners) listener(Math.max(0, nowMs - dueAtMs));
  dueAtMs = nowMs + TICK_MS;
}, TICK_MS).unref();
