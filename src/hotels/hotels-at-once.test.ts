import { expect, it } from 'vitest';
import { HotelsAtOnce } from './hotels-at-once.ts';

// src/changes/changes-reader.test.ts and src/cache/load-batcher.test.ts have the rest
it('a few large hotels are not typical', () => {
  const atOnce = new HotelsAtOnce(1000, 8 * 1024 ** 2);
  for (const [hotels, most] of [
    [63, 1000],
    [64, 128],
  ] as const) {
    atOnce.read('a', hotels, hotels * 65_536);
    expect(atOnce.most('a')).toBe(most);
  }
});
