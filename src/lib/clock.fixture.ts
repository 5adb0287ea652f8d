import { performance } from 'node:perf_hooks';
import { vi } from 'vitest';
import { type Clock, compareClocks, monotonicMs, type Timer, useClock } from './clock.ts';

/**
 * Makes both clocks jump together with `vi.setSystemTime` and `vi.advanceTimersByTime`. Between jumps the wall clock is
 * frozen and the monotonic clock runs. Returns a function that moves the wall clock alone.
 */
export function fakeClocks(nowMs = Date.now()): (byMs: number) => void {
  vi.useFakeTimers({ toFake: ['Date'], now: nowMs });
  let aheadMs = nowMs;
  const real = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => real() + Date.now() - aheadMs);
  compareClocks();
  return (byMs) => {
    aheadMs += byMs;
    vi.setSystemTime(Date.now() + byMs);
    compareClocks();
  };
}

/** Makes the monotonic clock show what `nowMs` returns, until `realClocks`. Timers are real. */
export function showMonotonic(nowMs: () => number): void {
  const beganMs = monotonicMs() - performance.now();
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs() - beganMs);
}

export function realClocks(): void {
  vi.restoreAllMocks();
  vi.useRealTimers();
  compareClocks();
}

/**
 * Fakes the timers, and the clocks with them, until `realClocks`. `aheadMs`: what it is ahead of the timers.
 * `options`: those of vitest, if only some timers are faked.
 */
export function fakeTimers(aheadMs = () => 0, options?: Parameters<typeof vi.useFakeTimers>[0]): void {
  vi.useFakeTimers(options);
  const { now } = globalThis.performance;
  vi.spyOn(performance, 'now').mockImplementation(() => now.call(globalThis.performance) + aheadMs());
  compareClocks();
}

interface VirtualTimer extends Timer {
  atMs: number;
  callback: () => void;
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Virtual time: it passes only while a test lets it, and runs the timers that are due in order. */
export class VirtualClock implements Clock {
  nowMs = 1_000_000;
  readonly watch: Clock['watch'] = { wallAheadMs: 0, sleptMs: 0, dueAtMs: 0, onStep: [], onTick: [] };
  readonly #timers = new Set<VirtualTimer>();

  /** Uses it for everything until `useClock()`. */
  constructor() {
    useClock(this);
  }

  readonly monotonicMs = () => this.nowMs;
  readonly wallMs = () => this.nowMs;
  readonly uptimeMs = () => this.nowMs;
  readonly random = () => 0.5;

  setTimer(callback: () => void, delayMs: number): Timer {
    // Node 24 warns of it
    if (delayMs < 0) throw new RangeError(`a timer of ${delayMs} ms`);
    return this.#add(callback, Math.max(1, delayMs));
  }

  every(callback: () => void, intervalMs: number): Timer {
    const timer = this.#add(() => {
      timer.atMs = this.nowMs + intervalMs;
      this.#timers.add(timer);
      callback();
    }, intervalMs);
    return timer;
  }

  clearTimer(timer: Timer | undefined): void {
    this.#timers.delete(timer as VirtualTimer);
  }

  onIteration(callback: () => void): void {
    this.#add(callback, 0);
  }

  async pass(ms: number): Promise<void> {
    const endMs = this.nowMs + ms;
    while (await this.#runNext(endMs));
    this.nowMs = endMs;
  }

  /** Lets time pass until something is so. Throws if it is not within an hour. */
  async until(isSo: () => boolean): Promise<void> {
    const endMs = this.nowMs + 3_600_000;
    await settled();
    while (!isSo()) if (!(await this.#runNext(endMs))) throw new Error('it is not so within an hour');
  }

  #add(callback: () => void, afterMs: number): VirtualTimer {
    const timer = { atMs: this.nowMs + afterMs, callback, unref: () => timer };
    this.#timers.add(timer);
    return timer;
  }

  async #runNext(endMs: number): Promise<boolean> {
    await settled();
    const [next] = [...this.#timers].sort((a, b) => a.atMs - b.atMs);
    if (!next || next.atMs > endMs) return false;
    this.#timers.delete(next);
    this.nowMs = Math.max(this.nowMs, next.atMs);
    next.callback();
    await settled();
    return true;
  }
}
