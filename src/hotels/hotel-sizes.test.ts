import { expect, it } from 'vitest';
import { showMonotonic } from '../lib/clock.fixture.ts';
import { HotelSizes } from './hotel-sizes.ts';

const MIB = 1024 ** 2;
const USUAL_AT_ONCE = 4_096;

// src/cache/load-batcher.test.ts and src/changes/changes-reader.test.ts have the rest
it('the largest hotels of a key decide, not a few, and are forgotten with time alone', () => {
  let nowMs = 0;
  showMonotonic(() => nowMs);
  const sizes = new HotelSizes();
  const atOnce = (owner = 'a') => sizes.atOnce(owner, 8 * MIB);
  sizes.note('a', 31, 31 * 65_536);
  expect(atOnce()).toBe(USUAL_AT_ONCE);
  sizes.note('a', 1_000, 1_000 * 65_536);
  for (let i = 0; i < 1_000; i++) for (const owner of ['a', 'b']) sizes.note(owner, 1_000, MIB);
  expect(atOnce()).toBe(128);
  expect(sizes.weightOf('a')).toBeCloseTo(32);
  expect([atOnce('b'), sizes.weightOf('b')]).toEqual([USUAL_AT_ONCE, 1]);
  nowMs = 20_000;
  expect(atOnce()).toBe(256);
  nowMs = 120_000;
  expect(atOnce()).toBe(USUAL_AT_ONCE);
});
