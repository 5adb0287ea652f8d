import { afterEach, expect, it } from 'vitest';
import { fakeClocks, realClocks } from './clock.fixture.ts';
import { monotonicMs, onClockStep, wallAt } from './clock.ts';

afterEach(realClocks);

it('derives the wall clock from the monotonic clock, also after a clock step', () => {
  const setWallClock = fakeClocks();
  const steps: number[] = [];
  onClockStep((byMs) => steps.push(Math.round(byMs / 1_000)));
  for (const byMs of [-10_800_000, 3_600_000, 500]) {
    const beforeMs = monotonicMs();
    setWallClock(byMs);
    expect(monotonicMs() - beforeMs).toBeLessThan(60_000);
    expect(Math.abs(wallAt(monotonicMs()) - Date.now())).toBeLessThan(60_000);
  }
  // a change of less than a second is no step
  expect(steps).toEqual([-10_800, 3_600]);
});
