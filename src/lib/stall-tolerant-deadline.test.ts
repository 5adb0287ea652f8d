import { describe, expect, it } from 'vitest';
import { DeadlineExceeded } from './shutdown.ts';
import { StallTolerantDeadline } from './stall-tolerant-deadline.ts';

const never = new Promise<never>(() => {});

function standStill(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

/** Settles as `work` does within a patience of 100 ms. */
async function within(work: Promise<unknown>): Promise<unknown> {
  const deadline = new StallTolerantDeadline(100);
  try {
    return await deadline.bound(work);
  } finally {
    deadline.end();
  }
}

describe('patience', () => {
  it('is over after the deadline, and says so', async () => {
    const beganMs = performance.now();
    const deadline = new StallTolerantDeadline(100);
    expect(deadline.over).toBe(false);
    await expect(deadline.bound(never)).rejects.toThrow(DeadlineExceeded);
    expect(deadline.over).toBe(true);
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(95);
    await expect(deadline.bound(never)).rejects.toThrow('not done within 100 ms');
  });

  it('does not count what this process itself stood still', async () => {
    const beganMs = performance.now();
    const answer = within(new Promise((resolve) => setTimeout(resolve, 125, 'an answer')));
    setImmediate(() => standStill(80));
    expect(await answer).toBe('an answer');
    expect(performance.now() - beganMs).toBeLessThan(200);
  });

  it('reads an answer that came meanwhile before it is called late, however long that was', async () => {
    const answer = within(new Promise((resolve) => setTimeout(resolve, 10, 'an answer')));
    setTimeout(() => standStill(300), 0);
    expect(await answer).toBe('an answer');
  });

  it('is over at twice the deadline in any case', async () => {
    const beganMs = performance.now();
    const stalls = setInterval(() => standStill(60), 0);
    await expect(within(never)).rejects.toThrow(DeadlineExceeded);
    clearInterval(stalls);
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(200);
  });
});
