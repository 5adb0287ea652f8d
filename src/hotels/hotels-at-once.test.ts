import { expect, it } from 'vitest';
import { HotelsAtOnce } from './hotels-at-once.ts';

const MIB = 1024 * 1024;

it('follows the size of the hotels of each key, falls at once, and rises slowly', () => {
  const atOnce = new HotelsAtOnce(1000, 8 * MIB);
  const both = () => [atOnce.most('large'), atOnce.most('small')];
  atOnce.read('small', 1000, MIB);
  expect(both()).toEqual([1000, 1000]);
  atOnce.read('large', 100, 6 * MIB);
  expect(both()).toEqual([133, 1000]);
  atOnce.tooMany('large');
  expect(both()).toEqual([64, 1000]);
  for (const most of [65, 67, 69]) {
    atOnce.read('large', 1000, MIB);
    expect(both()).toEqual([most, 1000]);
  }
  // a few hotels are not typical
  atOnce.read('large', 63, 1000);
  expect(both()).toEqual([69, 1000]);
  for (let i = 0; i < 91; i++) atOnce.read('large', 1000, MIB);
  expect(both()).toEqual([1000, 1000]);
});
