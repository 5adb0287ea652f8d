import { expect, it } from 'vitest';
import { simulate } from '../sim/mutations.ts';

/** As 20261127: seeds are new each day, and two runs of a day have the same ones. */
const DAY = new Date().toISOString().slice(0, 10).replaceAll('-', '');

it('the service keeps its promises in virtual time, for the seeds of the day', async () => {
  const seed = `${DAY}000`;
  console.log(`node test/sim/main.ts --seed ${seed} --episodes 34 --seconds 600`);
  expect(await simulate(undefined, ['--seed', seed, '--episodes', '34', '--seconds', '600'])).toBeUndefined();
});
