import os from 'node:os';
import { expect, it, vi } from 'vitest';
import { fakeClocks } from './clock.fixture.ts';
import { monotonicMs, onClockStep, wallAt, wallMs } from './clock.ts';

it('derives the wall clock from the monotonic clock, also after a step, and tells a sleep of the machine from a step', () => {
  const setWallClock = fakeClocks();
  const steps: number[][] = [];
  onClockStep((...ms) => steps.push(ms.map((each) => Math.round(each / 1_000))));
  const uptimeS = os.uptime();
  const step = (byMs: number) => {
    const beforeMs = monotonicMs();
    setWallClock(byMs);
    expect(monotonicMs() - beforeMs).toBeLessThan(60_000);
    expect(Math.abs(wallAt(monotonicMs()) - wallMs())).toBeLessThan(60_000);
  };
  // a change of less than a second is no step
  for (const byMs of [-10_800_000, 3_600_000, 500]) step(byMs);
  vi.spyOn(os, 'uptime').mockReturnValue(uptimeS + 7_200);
  step(7_200_000);
  expect(steps).toEqual([
    [-10_800, 0],
    [3_600, 0],
    [7_200, 7_200],
  ]);
});
