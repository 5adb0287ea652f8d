import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { LookupCounter } from './lookup-counter.ts';

it('lookups are exported by tier and answer, every series from the start', async () => {
  const registry = new Registry();
  const lookups = new LookupCounter(registry, 'lookups_total', 'Look-ups');
  const valuesOf = async () => {
    const [metric] = await registry.getMetricsAsJSON();
    return metric!.values.map(({ labels, value }) => `${labels.tier} ${labels.answer} ${value}`);
  };
  expect(await valuesOf()).toEqual(
    ['local', 'redis', 'postgres'].flatMap((tier) =>
      ['hit', 'absent', 'miss'].map((answer) => `${tier} ${answer} 0`),
    ),
  );
  lookups.counts.local.hit++;
  lookups.counts.redis.absent += 7;
  expect((await valuesOf()).filter((text) => !text.endsWith(' 0'))).toEqual([
    'local hit 1',
    'redis absent 7',
  ]);
});
