import { stat } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DeadlineExceeded, Lifecycle, withDeadline } from './shutdown.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a lifecycle', () => {
  it('releases in reverse order, each when the one before has ended', async () => {
    const lifecycle = new Lifecycle();
    const done: string[] = [];
    for (const name of ['first', 'second', 'third']) {
      lifecycle.push(name, async () => {
        done.push(`${name} begins`);
        await Promise.resolve();
        done.push(`${name} ends`);
      });
    }
    expect(await lifecycle.close()).toEqual([]);
    expect(done).toEqual([
      'third begins',
      'third ends',
      'second begins',
      'second ends',
      'first begins',
      'first ends',
    ]);
  });

  it('releases once, whoever closes it', async () => {
    const lifecycle = new Lifecycle();
    const release = vi.fn();
    lifecycle.push('it', release);
    const [one, other] = [lifecycle.close(), lifecycle.close()];
    expect(one).toBe(other);
    await one;
    await lifecycle.close();
    expect(release).toHaveBeenCalledTimes(1);
  });

  it('goes on after a release that throws, rejects or is late, and says so of each', async () => {
    const lifecycle = new Lifecycle();
    const last = vi.fn();
    lifecycle.push('the last', last);
    lifecycle.push('throws', () => {
      throw new Error('no way');
    });
    lifecycle.push('rejects', () => Promise.reject(new Error('not today')));
    lifecycle.push('hangs', () => new Promise(() => {}), 300);
    const closing = lifecycle.close();
    await vi.advanceTimersByTimeAsync(299);
    expect(last).not.toHaveBeenCalled();
    // what has come meanwhile is read before the verdict: one turn more
    await vi.advanceTimersByTimeAsync(2);
    expect(await closing).toEqual(['hangs: not done within 300 ms', 'rejects: not today', 'throws: no way']);
    expect(last).toHaveBeenCalledTimes(1);
  });

  it('releases what is pushed while it closes', async () => {
    const lifecycle = new Lifecycle();
    const late = vi.fn();
    lifecycle.push('it', () => lifecycle.push('opened meanwhile', late));
    await lifecycle.close();
    expect(late).toHaveBeenCalledTimes(1);
  });
});

describe('a deadline', () => {
  it('passes on what is done in time and leaves no timer', async () => {
    expect(await withDeadline(Promise.resolve('done'), 1_000)).toBe('done');
    await expect(withDeadline(Promise.reject(new Error('failed')), 1_000)).rejects.toThrow('failed');
    await vi.advanceTimersByTimeAsync(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('does not call late what came in time while the process was too busy to see it', async () => {
    vi.useRealTimers();
    const work = stat('.');
    const judged = withDeadline(work, 20);
    const untilMs = performance.now() + 100;
    while (performance.now() < untilMs);
    expect((await judged).isDirectory()).toBe(true);
  });

  it('gives up what is late, and what it fails with later harms nobody', async () => {
    const { promise, reject } = Promise.withResolvers<void>();
    const outcome = withDeadline(promise, 1_000).catch((error) => error);
    await vi.advanceTimersByTimeAsync(1_001);
    expect(await outcome).toBeInstanceOf(DeadlineExceeded);
    reject(new Error('nobody listens any more'));
    await vi.advanceTimersByTimeAsync(0);
  });
});
