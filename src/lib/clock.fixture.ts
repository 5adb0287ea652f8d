import { performance } from 'node:perf_hooks';
import { vi } from 'vitest';
import { compareClocks } from './clock.ts';

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
