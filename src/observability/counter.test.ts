import { expect, it } from 'vitest';
import { Counter } from './counter.ts';

const TIERS = ['local', 'redis'] as const;
const valuesOf = (counter: { get(): { values: { labels: object; value: number }[] } }) =>
  counter.get().values.map(({ labels, value }) => [Object.entries(labels).join(' '), value]);

it('shows every series from the start, and no other ever', () => {
  const one = new Counter('a_total', 'A', ['tier', TIERS]);
  expect(valuesOf(one)).toEqual([
    ['tier,local', 0],
    ['tier,redis', 0],
  ]);
  one.add(3, 'redis');
  one.add(2, 'redis');
  expect(valuesOf(one)).toEqual([
    ['tier,local', 0],
    ['tier,redis', 5],
  ]);
});

it('counts without a label', () => {
  const none = new Counter('b_total', 'B');
  none.add(1);
  none.add(2);
  expect(valuesOf(none)).toEqual([['', 3]]);
});
