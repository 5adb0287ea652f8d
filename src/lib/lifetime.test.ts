import { expect, it } from 'vitest';
import { lifetimeMs } from './lifetime.ts';

it('lifetimes are spread between half of the longest and the longest', () => {
  const drawn = Array.from({ length: 100 }, () => lifetimeMs(86_400_000));
  expect(new Set(drawn).size).toBeGreaterThan(90);
  expect([lifetimeMs(60_000, 0), lifetimeMs(60_000, 0.5), lifetimeMs(1_000, 1)]).toEqual([
    60_000, 45_000, 500,
  ]);
});
