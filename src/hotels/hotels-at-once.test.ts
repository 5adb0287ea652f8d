import { expect, it } from 'vitest';
import { HotelsAtOnce } from './hotels-at-once.ts';

// src/changes/changes-reader.test.ts and src/cache/load-batcher.test.ts have the rest
it('a few large hotels are not typical', () => {
  const atOnce = new HotelsAtOnce(1000, 8 * 1024 ** 2);
  atOnce.note('a', 63, 63 * 65_536);
  expect(atOnce.maxFor('a')).toBe(1000);
  atOnce.note('a', 64, 64 * 65_536);
  expect(atOnce.maxFor('a')).toBe(128);
});
