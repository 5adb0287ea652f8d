import { stat } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DeadlineExceeded, Shutdown, withDeadline } from './shutdown.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a lifecycle', () => {
  it('releases in reverse order, each when the one before has ended', async () => {
    const shutdown = new Shutdown();
    const done: string[] = [];
    for (const name of ['first', 'second', 'third']) {
      shutdown.push(name, async () => {
        done.push(`${name} begins`);
        await Promise.resolve();
        done.push(`${name} ends`);
      });
    }
    expect(await shutdown.close()).toEqual([]);
    expect(done).toEqual([
      'third begins',
      'third ends',
      'second begins',
      'second ends',
      'first begins',
      'first ends',
    ]);
  });

  it('releases once when it is closed twice', async () => {
    const shutdown = new Shutdown();
    const release = vi.fn();
    shutdown.push('it', release);
    const [one, other] = [shutdown.close(), shutdown.close()];
    expect(one).toBe(other);
    await one;
    await shutdown.close();
    expect(release).toHaveBeenCalledTimes(1);
  });

  it('continues after a release that throws, rejects or is late, and reports each', async () => {
    const shutdown = new Shutdown();
    const last = vi.fn();
    shutdown.push('the last', last);
    shutdown.push('throws', () => {
      throw new Error('no way');
    });
    shutdown.push('rejects', () => Promise.reject(new Error('not today')));
    shutdown.push('hangs', () => new Promise(() => {}), 300);
    const closing = shutdown.close();
    await vi.advanceTimersByTimeAsync(299);
    expect(last).not.toHaveBeenCalled();
    // a pending result is read before the timeout: one more event-loop iteration
    await vi.advanceTimersByTimeAsync(2);
    expect(await closing).toEqual(['hangs: not done within 300 ms', 'rejects: not today', 'throws: no way']);
    expect(last).toHaveBeenCalledTimes(1);
  });

  it('releases what is pushed while it closes', async () => {
    const shutdown = new Shutdown();
    const late = vi.fn();
    shutdown.push('it', () => shutdown.push('opened meanwhile', late));
    await shutdown.close();
    expect(late).toHaveBeenCalledTimes(1);
  });
});

describe('a deadline', () => {
  it('passes on a result that is in time, and leaves no timer', async () => {
    expect(await withDeadline(Promise.resolve('done'), 1_000)).toBe('done');
    await expect(withDeadline(Promise.reject(new Error('failed')), 1_000)).rejects.toThrow('failed');
    await vi.advanceTimersByTimeAsync(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('accepts a result that arrived in time while the event loop was blocked', async () => {
    vi.useRealTimers();
    const work = stat('.');
    const judged = withDeadline(work, 20);
    const untilMs = performance.now() + 100;
    while (performance.now() < untilMs);
    expect((await judged).isDirectory()).toBe(true);
  });

  it('times out, and ignores a later rejection', async () => {
    const { promise, reject } = Promise.withResolvers<void>();
    const outcome = withDeadline(promise, 1_000).catch((error) => error);
    await vi.advanceTimersByTimeAsync(1_001);
    expect(await outcome).toBeInstanceOf(DeadlineExceeded);
    reject(new Error('too late'));
    await vi.advanceTimersByTimeAsync(0);
  });
});
