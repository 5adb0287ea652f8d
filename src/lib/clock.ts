import os from 'node:os';
// the global `performance` is a getter, which V8 calls at every use
import { performance } from 'node:perf_hooks';

/** Interval of comparing the two clocks. Whatever else runs as often uses the same timer: each wakes an idle process. */
const TICK_MS = 100;
/** A change of their difference by more than this is a step of the wall clock. */
const STEP_MS = 1_000;

export interface Timer {
  /** Lets the process end although the timer is pending. */
  unref(): Timer;
}

/**
 * All that a serving process knows of time and chance, so that a run of the simulation (test/sim) depends on its seed alone.
 * Only the random bytes of request ids and hash seeds come from `node:crypto`.
 */
export interface Clock {
  monotonicMs(): number;
  wallMs(): number;
  /** time since the system booted, sleep of the machine included */
  uptimeMs(): number;
  /** at least 0 and below 1 */
  random(): number;
  setTimer(callback: () => void, delayMs: number): Timer;
  every(callback: () => void, intervalMs: number): Timer;
  clearTimer(timer: Timer | undefined): void;
  onIteration(callback: () => void): void;
  /** what the process knows of its clocks */
  readonly watch: ClockWatch;
}

interface ClockWatch {
  wallAheadMs: number;
  sleptMs: number;
  dueAtMs: number;
  onStep: ((byMs: number, sleptMs: number) => void)[];
  onTick: ((lateMs: number) => void)[];
}

/**
 * Time at which this process began, since the boot of the system, to 1 ms. `performance` counts from there and `process.hrtime` from
 * the boot, but takes longer.
 */
const BEGAN_MS = (function measure(): number {
  const sinceBootMs = () => Number(process.hrtime.bigint()) / 1e6;
  const beforeMs = sinceBootMs();
  const beganMs = beforeMs - performance.now();
  // else the process was stopped between the two
  return sinceBootMs() - beforeMs < 1 ? beganMs : measure();
})();

const realClock: Clock = {
  monotonicMs: () => BEGAN_MS + performance.now(),
  wallMs: () => Date.now(),
  uptimeMs: () => os.uptime() * 1e3,
  random: () => Math.random(),
  setTimer: (callback, delayMs) => setTimeout(callback, delayMs),
  every: (callback, intervalMs) => setInterval(callback, intervalMs),
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
  onIteration: (callback) => void setImmediate(callback),
  watch: { wallAheadMs: 0, sleptMs: 0, dueAtMs: 0, onStep: [], onTick: [] },
};

let clock = realClock;

/** Replaces the clock: the simulation has one for each of its processes. Without an argument time is real again. */
export function useClock(other: Clock = realClock): void {
  realClock.clearTimer(watching);
  watching = undefined;
  clock = other;
}

/**
 * Returns milliseconds since the system booted, without those in which the machine slept. The clock is never set, and is one for all
 * processes of a machine. All ages are measured by it.
 */
export function monotonicMs(): number {
  return clock.monotonicMs();
}

export const DAY_MS = 86_400_000;

/** Returns the time of the wall clock (epoch ms), which decides about midnight and the expiry of keys, and no age. */
export function wallMs(): number {
  return clock.wallMs();
}

/** Returns a random number from 0 to below 1: for spreading load, never for secrets. */
export function random(): number {
  return clock.random();
}

/** Calls back once, after at least this time. */
export function setTimer(callback: () => void, delayMs: number): Timer {
  return clock.setTimer(callback, delayMs);
}

/** Calls back again and again, until `clearTimer`. */
export function every(callback: () => void, intervalMs: number): Timer {
  return clock.every(callback, intervalMs);
}

/** Ends a timer of `setTimer` or `every`, if there is one. */
export function clearTimer(timer: Timer | undefined): void {
  clock.clearTimer(timer);
}

/** Calls back at the end of this iteration of the event loop, after what has arrived was read. */
export function onIteration(callback: () => void): void {
  clock.onIteration(callback);
}

/** Resolves at the end of this iteration of the event loop. */
export function nextIteration(): Promise<void> {
  return new Promise((resolve) => clock.onIteration(resolve));
}

/** Resolves after at least this time, or at once when `signal` aborts. */
export function pause(delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      clock.clearTimer(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = clock.setTimer(end, delayMs);
    signal?.addEventListener('abort', end);
  });
}

/**
 * Converts a time of the monotonic clock to the wall clock (epoch ms) without reading a clock. A step of the wall clock
 * is noticed within 100 ms.
 */
export function wallAt(nowMs: number): number {
  return nowMs + clock.watch.wallAheadMs;
}

/**
 * Registers a callback for steps of the wall clock; it receives the size of the step in milliseconds. The step is also
 * positive after the machine has slept, because the monotonic clock stops then. `sleptMs`: how long it slept; 0 if the clock
 * was set.
 */
export function onClockStep(listener: (byMs: number, sleptMs: number) => void): void {
  clock.watch.onStep.push(listener);
}

/** Compares the clocks; a timer calls it ten times a second. */
export function compareClocks(): void {
  const { watch } = clock;
  const aheadMs = wallMs() - monotonicMs();
  const byMs = aheadMs - watch.wallAheadMs;
  watch.wallAheadMs = aheadMs;
  if (Math.abs(byMs) <= STEP_MS) return;
  const sleptBeforeMs = watch.sleptMs;
  watch.sleptMs = sleepOfMachineMs();
  const sleepMs = watch.sleptMs - sleptBeforeMs;
  for (const listener of watch.onStep) listener(byMs, sleepMs > STEP_MS / 2 ? sleepMs : 0);
}

/** Returns a time that grows only while the machine sleeps: the clock of `uptimeMs` goes on then, the monotonic one stops. */
function sleepOfMachineMs(): number {
  return clock.uptimeMs() - monotonicMs();
}

/** Registers a callback that is called ten times a second. It receives how late it is called, in milliseconds. */
export function onTick(listener: (lateMs: number) => void): void {
  clock.watch.onTick.push(listener);
}

/** Begins to watch the clocks of this process. */
export function watchClocks(): Timer {
  const { watch } = clock;
  watch.wallAheadMs = wallMs() - monotonicMs();
  watch.sleptMs = sleepOfMachineMs();
  watch.dueAtMs = monotonicMs() + TICK_MS;
  return every(() => {
    const nowMs = monotonicMs();
    compareClocks();
    for (const listener of watch.onTick) listener(Math.max(0, nowMs - watch.dueAtMs));
    watch.dueAtMs = nowMs + TICK_MS;
  }, TICK_MS).unref();
}

let watching: Timer | undefined = watchClocks();
