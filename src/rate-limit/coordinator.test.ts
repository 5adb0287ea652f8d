import { afterEach, beforeEach, expect, it } from 'vitest';
import { fakeTimers, realClocks } from '../lib/clock.fixture.ts';
import { RateLimitCoordinator } from './coordinator.ts';

const LIMIT = { requests: 5, windowMs: 1_000 };
const REQUEST = { id: 'a', limit: LIMIT, wanted: 2 };

beforeEach(() => fakeTimers());
afterEach(() => realClocks());

it.each([
  ['grants more than was asked for', { granted: 3, left: 2, resetInMs: 10 }],
  ['grants less although some are left', { granted: 0, left: 1, resetInMs: 10 }],
  ['grants a negative number', { granted: -1, left: 0, resetInMs: 10 }],
  ['has a window that is over', { granted: 2, left: 3, resetInMs: -10 }],
])('a shared count that %s is none: the instance counts by itself', async (_, count) => {
  const coordinator = new RateLimitCoordinator(async () => count);
  expect(await coordinator.grant([REQUEST])).toEqual([{ id: 'a', granted: 2, left: 3, resetInMs: 1_000 }]);
});

it('a shared count lengthens no window', async () => {
  const count = { granted: 0, left: 0, resetInMs: 9e12 };
  const coordinator = new RateLimitCoordinator(async () => count);
  expect(await coordinator.grant([REQUEST])).toEqual([{ id: 'a', granted: 0, left: 0, resetInMs: 1_000 }]);
});
