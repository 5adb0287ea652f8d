import { afterEach, expect, it, vi } from 'vitest';
import { TickBudget } from './tick-budget.ts';

afterEach(() => vi.restoreAllMocks());

it('of an iteration is used up by parsing as well as by responses', () => {
  let milliseconds = 0;
  vi.spyOn(process, 'threadCpuUsage').mockImplementation(() => ({ user: 1000 * milliseconds, system: 0 }));
  const budget = new TickBudget();
  const answerSmall = () => budget.take(100, false);
  const parse = () => {
    for (let i = 0; i < 8; i++) budget.parsed(4096);
    milliseconds += 20;
  };
  parse();
  expect(answerSmall()).toBe('within');
  parse();
  expect([answerSmall(), answerSmall()]).toEqual(['last', 'later']);
});
