import { expect, it, vi } from 'vitest';
import { fakeTimers } from './clock.fixture.ts';
import { Shutdown } from './shutdown.ts';

it('releases in reverse order, each once, when the one before has ended, also what is pushed meanwhile', async () => {
  const shutdown = new Shutdown();
  const done: string[] = [];
  const push = (name: string, before = () => {}) =>
    shutdown.push(name, async () => {
      before();
      done.push(`${name} begins`);
      await Promise.resolve();
      done.push(`${name} ends`);
    });
  push('first');
  push('second', () => push('late'));
  const closing = shutdown.close();
  expect(shutdown.close()).toBe(closing);
  expect(await closing).toEqual([]);
  await shutdown.close();
  expect(done).toEqual(['second', 'late', 'first'].flatMap((name) => [`${name} begins`, `${name} ends`]));
});

it('continues after a release that throws, rejects or is late, and reports each', async () => {
  fakeTimers();
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
