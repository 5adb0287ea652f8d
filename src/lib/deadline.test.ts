import { beforeEach, expect, it, vi } from 'vitest';
import { fakeTimers } from './clock.fixture.ts';
import { onIteration, setTimer } from './clock.ts';
import { DeadlineExceeded, withDeadline } from './deadline.ts';

beforeEach(() => fakeTimers());

it('withDeadline reads a result that arrived in time during an event-loop stall', async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  // what has arrived is read after the timers
  setTimer(() => onIteration(() => resolve('a result')), 100);
  const bounded = withDeadline(promise, 100);
  await vi.advanceTimersByTimeAsync(101);
  expect(await bounded).toBe('a result');
});

it('withDeadline returns a result, rejects late work, ignores its later failure, and leaves no timer', async () => {
  expect(await withDeadline(Promise.resolve('done'), 1_000)).toBe('done');
  const { promise, reject } = Promise.withResolvers<void>();
  const outcome = withDeadline(promise, 1_000).catch((error) => error);
  await vi.advanceTimersByTimeAsync(1_001);
  expect(await outcome).toBeInstanceOf(DeadlineExceeded);
  reject(new Error('late failure'));
  await vi.advanceTimersByTimeAsync(0);
  expect(vi.getTimerCount()).toBe(0);
});
