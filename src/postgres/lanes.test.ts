import { expect, it } from 'vitest';
import { showMonotonic } from '../lib/clock.fixture.ts';
import { Queries } from './lanes.ts';

it('an owner of which no query waits may try, although the queries of another have made the queue slow', async () => {
  let nowMs = 1;
  showMonotonic(() => nowMs);
  const queries = new Queries(1);
  const finish: (() => void)[] = [];
  const query = () => new Promise<void>((resolve) => finish.push(resolve));
  const all = Array.from({ length: 8 }, () => queries.run('many', 1, query));
  const isFull = (owner: string, limit = 100) => queries.isFull(owner, limit, 375, nowMs);
  expect(isFull('many')).toBe(false);
  for (let i = 0; i < 3; i++) {
    await new Promise(setImmediate);
    nowMs += 1_000;
    finish.shift()!();
    await all[i];
  }
  expect([isFull('many'), isFull('other')]).toEqual([true, false]);
  all.push(queries.run('other', 1, query));
  expect(isFull('other')).toBe(true);
  expect([isFull('third'), isFull('third', 2)]).toEqual([false, true]);
  for (const each of all.slice(3)) {
    await new Promise(setImmediate);
    finish.shift()!();
    await Promise.race([each, new Promise(setImmediate)]);
  }
});
