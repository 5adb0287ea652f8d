import { setImmediate as nextTick } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Slices } from './slices.ts';

/** Longer than a slice. */
const LONG_MS = 6;

function occupy(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

describe('slices', () => {
  it('run the first piece at once, and at most one long piece in an iteration', async () => {
    const slices = new Slices();
    const done: number[] = [];
    const all = Array.from({ length: 4 }, (_, i) =>
      slices.run('a', () => {
        occupy(LONG_MS);
        done.push(i);
      }),
    );
    expect(done).toEqual([0]);
    for (let iterations = 0; done.length < 4; iterations++) {
      expect(iterations).toBeLessThan(100);
      const before = done.length;
      await nextTick();
      expect(done.length - before).toBeLessThanOrEqual(1);
    }
    await Promise.all(all);
    expect(done).toEqual([0, 1, 2, 3]);
  });

  it('serve owners in turn', async () => {
    const slices = new Slices();
    const done: string[] = [];
    const run = (owner: string) =>
      slices.run(owner, () => {
        occupy(LONG_MS);
        done.push(owner);
      });
    await Promise.all([...Array.from({ length: 6 }, () => run('many')), run('one')]);
    expect(done.indexOf('one')).toBeLessThan(4);
  });

  it('reject with what the work throws, and go on', async () => {
    const slices = new Slices();
    const failed = slices.run('a', () => {
      occupy(LONG_MS);
      throw new Error('wrong');
    });
    const next = slices.run('a', () => {
      throw new Error('wrong again');
    });
    const last = slices.run('a', () => {});
    await expect(failed).rejects.toThrow('wrong');
    await expect(next).rejects.toThrow('wrong again');
    await last;
  });
});
