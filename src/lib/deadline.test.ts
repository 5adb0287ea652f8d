import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { Deadline, DeadlineExceeded, withDeadline } from './deadline.ts';

const never = new Promise<never>(() => {});

function stall(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

it('a deadline begins again when it is restarted, unless it has passed', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
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
  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  it('settles as the work does and leaves no timer', async () => {
    expect(await withDeadline(Promise.resolve('done'), 1_000)).toBe('done');
    await expect(withDeadline(Promise.reject(new Error('failed')), 1_000)).rejects.toThrow('failed');
    await vi.advanceTimersByTimeAsync(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('reads a result that arrived in time during an event-loop stall', async () => {
    vi.useRealTimers();
    const { port1, port2 } = new MessageChannel();
    const received = once(port2, 'message');
    const bounded = withDeadline(received, 20);
    port1.postMessage('a result');
    stall(100);
    expect(await bounded).toEqual(['a result']);
    port1.close();
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
