import { expect, it } from 'vitest';
import { Tally } from './tally.ts';

const TIERS = ['local', 'redis'] as const;
const ANSWERS = ['hit', 'absent', 'miss'] as const;
const valuesOf = (tally: { get(): { values: { labels: object; value: number }[] } }) =>
  tally.get().values.map(({ labels, value }) => [Object.entries(labels).join(' '), value]);

it('shows every series from the start, and no other ever', () => {
  const tally = new Tally('lookups_total', 'Look-ups', ['tier', TIERS], ['answer', ANSWERS]);
  expect(valuesOf(tally)).toEqual(
    TIERS.flatMap((tier) => ANSWERS.map((answer) => [`tier,${tier} answer,${answer}`, 0])),
  );
  tally.add(1, 'local', 'hit');
  tally.add(5, 'redis', 'absent');
  tally.add(2, 'redis', 'absent');
  expect(valuesOf(tally).filter(([, value]) => value !== 0)).toEqual([
    ['tier,local answer,hit', 1],
    ['tier,redis answer,absent', 7],
  ]);
  expect(valuesOf(tally).length).toBe(6);
});

it('counts with one label, or with none', () => {
  const one = new Tally('a_total', 'A', ['tier', TIERS]);
  one.add(3, 'redis');
  expect(valuesOf(one)).toEqual([
    ['tier,local', 0],
    ['tier,redis', 3],
  ]);
  const none = new Tally('b_total', 'B');
  none.add(1);
  none.add(2);
  expect(valuesOf(none)).toEqual([['', 3]]);
});
