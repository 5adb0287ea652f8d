import { beforeEach, describe, expect, it, vi } from 'vitest';
import { fakeTimers } from './clock.fixture.ts';
import { monotonicMs } from './clock.ts';
import { EventLoop } from './event-loop.ts';

const SIZE = 16 * 1024;
/** Longer than the budget of an iteration. */
const LONG_MS = 11;

let loop: EventLoop;
/** time that work has taken */
let spent = 0;
const nextIteration = () => vi.advanceTimersToNextTimerAsync();

beforeEach(() => {
  spent = 0;
  fakeTimers(() => spent);
  loop = new EventLoop();
});

describe('work', () => {
  let done: string[];
  /** Runs work that takes longer than the budget. */
  const run = (owner: string, what = owner) =>
    loop.run(owner, SIZE, () => {
      spent += LONG_MS;
      if (what === 'fails') throw new Error('wrong');
      done.push(what);
    });
  beforeEach(() => {
    done = [];
  });

  it('runs at once, and then one long piece in an iteration, also behind one that throws', async () => {
    const results = Promise.allSettled(['0', 'fails', '2', 'fails', '4'].map((what) => run('a', what)));
    for (const expected of ['0', '0', '02', '02', '024']) {
      expect(done.join('')).toBe(expected);
      await nextIteration();
    }
    const statuses = (await results).map(({ status }) => status[0]);
    expect(statuses.join('')).toBe('frfrf');
  });

  it('of several owners is done in turn', async () => {
    for (const owner of ['many', 'many', 'many', 'many', 'one']) void run(owner);
    for (let i = 0; i < 5; i++) await nextIteration();
    expect(done.indexOf('one')).toBeLessThan(4);
    expect(done).toHaveLength(5);
  });

  it('that waits gets the whole budget, whatever responses have taken, and leaves none for what is read behind it', async () => {
    expect(loop.hasTime(monotonicMs())).toBe(true);
    spent += LONG_MS;
    expect(loop.hasTime(monotonicMs())).toBe(false);
    let done = 0;
    for (let i = 0; i < 10; i++)
      loop.append('a', SIZE, () => {
        spent += 1;
        done++;
      });
    await nextIteration();
    expect(done).toBe(10);
    expect(loop.hasTime(monotonicMs())).toBe(false);
    expect(loop.isUsedUp(monotonicMs())).toBe(false);
    await nextIteration();
    expect(loop.hasTime(monotonicMs())).toBe(true);
  });
});

it('responses wait when those of their iteration have taken its budget', async () => {
  for (let round = 0; round < 3; round++) {
    expect(loop.isUsedUp(monotonicMs())).toBe(false);
    spent += LONG_MS;
    expect(loop.isUsedUp(monotonicMs())).toBe(true);
    await nextIteration();
  }
});
