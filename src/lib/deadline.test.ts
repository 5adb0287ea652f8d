import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { fakeTimers, realClocks } from './clock.fixture.ts';
import { onIteration, setTimer } from './clock.ts';
import { DeadlineExceeded, withDeadline } from './deadline.ts';

beforeEach(() => fakeTimers());
afterEach(realClocks);

describe('withDeadline', () => {
  it('settles as the work does and leaves no timer', async () => {
    expect(await withDeadline(Promise.resolve('done'), 1_000)).toBe('done');
    await expect(withDeadline(Promise.reject(new Error('failed')), 1_000)).rejects.toThrow('failed');
    await vi.advanceTimersByTimeAsync(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('reads a result that arrived in time during an event-loop stall', async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    // what has arrived is read after the timers
    setTimer(() => onIteration(() => resolve('a result')), 100);
    const bounded = withDeadline(promise, 100);
    await vi.advanceTimersByTimeAsync(101);
    expect(await bounded).toBe('a result');
  });

  it('rejects late work, and its later failure is ignored', async () => {
    const { promise, reject } = Promise.withResolvers<void>();
    const outcome = withDeadline(promise, 1_000).catch((error) => error);
    await vi.advanceTimersByTimeAsync(1_001);
    expect(await outcome).toBeInstanceOf(DeadlineExceeded);
    reject(new Error('late failure'));
    await vi.advanceTimersByTimeAsync(0);
  });
});
