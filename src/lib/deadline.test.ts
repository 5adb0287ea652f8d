import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DeadlineExceeded, StallTolerantDeadline, withDeadline } from './deadline.ts';

const never = new Promise<never>(() => {});

function stall(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

/** Settles as `work` does within a deadline of 100 ms. */
async function within(work: Promise<unknown>): Promise<unknown> {
  const deadline = new StallTolerantDeadline(100);
  try {
    return await deadline.bound(work);
  } finally {
    deadline.end();
  }
}

describe('StallTolerantDeadline', () => {
  it('rejects when the deadline has passed', async () => {
    const beganMs = performance.now();
    const deadline = new StallTolerantDeadline(100);
    expect(deadline.over).toBe(false);
    await expect(deadline.bound(never)).rejects.toThrow(DeadlineExceeded);
    expect(deadline.over).toBe(true);
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(95);
    await expect(deadline.bound(never)).rejects.toThrow('not done within 100 ms');
  });

  it('does not count event-loop stalls', async () => {
    const answer = within(new Promise((resolve) => setTimeout(resolve, 125, 'an answer')));
    setImmediate(() => stall(80));
    expect(await answer).toBe('an answer');
  });

  it('reads an answer that arrived during a long stall', async () => {
    const answer = within(new Promise((resolve) => setTimeout(resolve, 10, 'an answer')));
    setTimeout(() => stall(300), 0);
    expect(await answer).toBe('an answer');
  });

  it('begins again when it is restarted, unless it has passed', async () => {
    const deadline = new StallTolerantDeadline(100);
    const beganMs = performance.now();
    const restarts = setInterval(() => deadline.restart(), 20);
    setTimeout(() => clearInterval(restarts), 300);
    await expect(deadline.bound(never)).rejects.toThrow(DeadlineExceeded);
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(340);
    deadline.restart();
    expect(deadline.over).toBe(true);
  });

  it('ends at twice the deadline at the latest', async () => {
    const beganMs = performance.now();
    const stalls = setInterval(() => stall(60), 0);
    await expect(within(never)).rejects.toThrow(DeadlineExceeded);
    clearInterval(stalls);
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(200);
  });
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
