import { afterEach, expect, it } from 'vitest';
import { realClocks, showMonotonic } from '../lib/clock.fixture.ts';
import { HotelsAtOnce } from './hotels-at-once.ts';

const MIB = 1024 * 1024;

afterEach(realClocks);

it('follows the size of the hotels of each key, falls at once, and rises with time alone', () => {
  let nowMs = 0;
  showMonotonic(() => nowMs);
  const atOnce = new HotelsAtOnce(1000, 8 * MIB);
  const both = () => [atOnce.most('large'), atOnce.most('small')];
  atOnce.read('small', 1000, MIB);
  expect(both()).toEqual([1000, 1000]);
  atOnce.read('large', 100, 6 * MIB);
  expect(both()).toEqual([133, 1000]);
  atOnce.tooMany('large');
  expect(both()).toEqual([64, 1000]);
  for (let i = 0; i < 1000; i++) atOnce.read('large', 1000, MIB);
  expect(both()).toEqual([64, 1000]);
  nowMs = 20_000;
  expect(both()).toEqual([128, 1000]);
  // a few hotels are not typical
  atOnce.read('large', 63, 63 * 65_536);
  expect(both()).toEqual([128, 1000]);
  nowMs = 80_000;
  expect(both()).toEqual([1000, 1000]);
});
