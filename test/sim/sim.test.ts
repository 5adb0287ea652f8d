import { expect, it } from 'vitest';
import { run } from '../support/run.ts';

const MAIN = new URL('main.ts', import.meta.url).pathname;
const simulate = (...args: string[]) => run(process.execPath, [MAIN, ...args]);

it('keeps the promises for fixed seeds', { timeout: 120_000 }, async () => {
  const printed = await simulate('--seed', '1', '--episodes', '14', '--seconds', '60');
  expect(printed).toContain('14 episodes, 0 failed');
});

it('repeats a seed byte for byte, whatever ran before it', { timeout: 60_000 }, async () => {
  const traceOf = async (...args: string[]) =>
    (await simulate('--seconds', '15', '--trace', ...args))
      .split('\n')
      .filter((line) => /^\d+\.\d{3} /.test(line));
  const alone = await traceOf('--seed', '3');
  const behind = await traceOf('--seed', '2', '--episodes', '2');
  expect(alone.length).toBeGreaterThan(100);
  expect(behind.slice(-alone.length)).toEqual(alone);
});
