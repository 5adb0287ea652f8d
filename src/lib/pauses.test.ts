import { describe, expect, it } from 'vitest';
import { Pauses } from './pauses.ts';

/** Observes tasks at these times, and returns the time without pauses at the last one. */
function timeWithout(pauses: Pauses, times: Iterable<number>): number {
  let result = 0;
  for (const time of times) result = pauses.without(time);
  return result;
}

const everyMs = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i + 1);

describe('the time without pauses', () => {
  it('is the time while tasks follow each other', () => {
    const pauses = new Pauses();
    pauses.begin(100);
    expect(timeWithout(pauses, everyMs(100, 10_000))).toBe(10_000);
  });

  it('leaves out a pause, and not the time before the observation', () => {
    const pauses = new Pauses();
    pauses.begin(100);
    expect(timeWithout(pauses, [110, 710, 720])).toBe(120);
    pauses.begin(5_000);
    expect(pauses.without(5_010)).toBe(4_410);
  });

  it('contains the stops of a limited CPU', () => {
    const pauses = new Pauses();
    pauses.begin(0);
    expect(timeWithout(pauses, [10, 20, 99, 110, 120, 199])).toBe(199);
  });

  it('leaves out one second of pauses, regained at 5 % of later time', () => {
    const pauses = new Pauses();
    pauses.begin(0);
    expect(pauses.without(1_500)).toBe(500);
    expect(timeWithout(pauses, everyMs(1_500, 11_500))).toBe(10_500);
    // half of it again after ten seconds
    expect(pauses.without(12_300)).toBeCloseTo(10_800);
    pauses.begin(60_000);
    expect(pauses.without(61_500)).toBeCloseTo(59_000);
  });
});
