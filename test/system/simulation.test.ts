import { randomInt } from 'node:crypto';
import { expect, it } from 'vitest';
import { simulate } from '../sim/mutations.ts';

it('the service keeps its promises in virtual time, for new seeds of two minutes', async () => {
  const seed = randomInt(1e9);
  console.log(`node test/sim/main.ts --seed ${seed} --for 120s`);
  expect(await simulate(undefined, ['--seed', String(seed), '--for', '120s'])).toBeUndefined();
});
