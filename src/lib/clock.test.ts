import os from 'node:os';
import { afterEach, expect, it, vi } from 'vitest';
import { fakeClocks, realClocks } from './clock.fixture.ts';
import { monotonicMs, onClockStep, wallAt, wallMs } from './clock.ts';

afterEach(realClocks);

it('derives the wall clock from the monotonic clock, also after a clock step', () => {
  const setWallClock = fakeClocks();
  const steps: number[] = [];
  onClockStep((byMs) => steps.push(Math.round(byMs / 1_000)));
  for (const byMs of [-10_800_000, 3_600_000, 500]) {
    const beforeMs = monotonicMs();
    setWallClock(byMs);
    expect(monotonicMs() - beforeMs).toBeLessThan(60_000);
    expect(Math.abs(wallAt(monotonicMs()) - wallMs())).toBeLessThan(60_000);
  }
  // a change of less than a second is no step
  expect(steps).toEqual([-10_800, 3_600]);
});

it('tells a sleep of the machine from a clock that was set', () => {
  const setWallClock = fakeClocks();
  const sleeps: number[] = [];
  onClockStep((_, sleptMs) => sleeps.push(Math.round(sleptMs / 1_000)));
  setWallClock(3_600_000);
  const uptimeS = os.uptime();
  vi.spyOn(os, 'uptime').mockReturnValue(uptimeS + 7_200);
  setWallClock(7_200_000);
  expect(sleeps).toEqual([0, 7_200]);
});
