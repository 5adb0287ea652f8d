import { expect, it } from 'vitest';
import { lifetimeMs } from './versioned-values.ts';

it('is spread evenly between half of the longest and the longest', () => {
  expect(lifetimeMs(60_000, 0)).toBe(60_000);
  expect(lifetimeMs(60_000, 2 ** 31)).toBe(45_000);
  expect(lifetimeMs(60_000, 2 ** 32 - 1)).toBe(30_000);
  expect(lifetimeMs(1_000, 2 ** 32 - 1)).toBeGreaterThanOrEqual(500);
});
