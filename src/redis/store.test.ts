import { expect, it } from 'vitest';
import { lifetimeMs } from './store.ts';

it('is spread evenly between half of the longest and the longest', () => {
  expect(lifetimeMs(60_000, 0)).toBe(60_000);
  expect(lifetimeMs(60_000, 0.5)).toBe(45_000);
  expect(lifetimeMs(1_000, 1 - Number.EPSILON)).toBe(500);
});

it('is drawn anew for each value', () => {
  const drawn = new Set(Array.from({ length: 100 }, () => lifetimeMs(86_400_000)));
  expect(drawn.size).toBeGreaterThan(90);
});
