import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Shutdown } from './shutdown.ts';

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
