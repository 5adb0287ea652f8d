import { expect, it } from 'vitest';
import { LookupCounter } from './lookup-counter.ts';

it('look-ups are shown by tier and answer, every series from the start', () => {
  const lookups = new LookupCounter('lookups_total', 'Look-ups');
  const valuesOf = () =>
    lookups.get().values.map(({ labels, value }) => `${labels.tier} ${labels.answer} ${value}`);
  expect(valuesOf()).toEqual(
    ['local', 'redis', 'postgres'].flatMap((tier) =>
      ['hit', 'absent', 'miss'].map((answer) => `${tier} ${answer} 0`),
    ),
  );
  lookups.counts.local.hit++;
  lookups.counts.redis.absent += 7;
  expect(valuesOf().filter((text) => !text.endsWith(' 0'))).toEqual(['local hit 1', 'redis absent 7']);
});
