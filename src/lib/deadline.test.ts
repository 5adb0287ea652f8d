import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { fakeTimers, realClocks } from './clock.fixture.ts';
import { onIteration, setTimer } from './clock.ts';
import { Deadline, DeadlineExceeded, withDeadline } from './deadline.ts';

const never = new Promise<never>(() => {});

beforeEach(() => fakeTimers());
afterEach(realClocks);

it('a deadline begins again when it is restarted, unless it has passed', async () => {
  const deadline = new Deadline(100);
  let isOver = false;
  const bounded = deadline.bound(never).catch((error) => {
    isOver = true;
    return error;
  });
  for (let i = 0; i < 10; i++) {
    await vi.advanceTimersByTimeAsync(80);
    deadline.restart();
  }
  await vi.advanceTimersByTimeAsync(99);
  expect(isOver).toBe(false);
  await vi.advanceTimersByTimeAsync(2);
  expect(await bounded).toBeInstanceOf(DeadlineExceeded);
  deadline.restart();
  await expect(deadline.bound(never)).rejects.toThrow('not done within 100 ms');
  deadline.end();
  expect(vi.getTimerCount()).toBe(0);
});

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
