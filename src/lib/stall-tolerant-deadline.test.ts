import { describe, expect, it } from 'vitest';
import { DeadlineExceeded } from './shutdown.ts';
import { StallTolerantDeadline } from './stall-tolerant-deadline.ts';

const never = new Promise<never>(() => {});

function blockEventLoop(ms: number): void {
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

describe('a stall-tolerant deadline', () => {
  it('rejects after the deadline, and is over', async () => {
    const beganMs = performance.now();
    const deadline = new StallTolerantDeadline(100);
    expect(deadline.over).toBe(false);
    await expect(deadline.bound(never)).rejects.toThrow(DeadlineExceeded);
    expect(deadline.over).toBe(true);
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(95);
    await expect(deadline.bound(never)).rejects.toThrow('not done within 100 ms');
  });

  it('does not count an event-loop stall', async () => {
    const beganMs = performance.now();
    const answer = within(new Promise((resolve) => setTimeout(resolve, 125, 'an answer')));
    setImmediate(() => blockEventLoop(80));
    expect(await answer).toBe('an answer');
    expect(performance.now() - beganMs).toBeLessThan(200);
  });

  it('accepts a result that arrived during a stall of any length', async () => {
    const answer = within(new Promise((resolve) => setTimeout(resolve, 10, 'an answer')));
    setTimeout(() => blockEventLoop(300), 0);
    expect(await answer).toBe('an answer');
  });

  it('ends at twice the timeout at the latest', async () => {
    const beganMs = performance.now();
    const stalls = setInterval(() => blockEventLoop(60), 0);
    await expect(within(never)).rejects.toThrow(DeadlineExceeded);
    clearInterval(stalls);
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(200);
  });
});
