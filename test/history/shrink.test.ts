import { expect, it } from 'vitest';
import { Draw } from '../../src/cli/seed/draw.ts';
import { shrink } from './shrink.ts';
import { drawSteps } from './steps.ts';

const numbers = [...Array(40).keys()];

it('keeps the elements that a failure needs, at any position', async () => {
  const needed = [3, 17, 38];
  let requested = 0;
  const fails = async (items: number[]) => {
    requested++;
    return needed.every((number) => items.includes(number));
  };
  expect(await shrink(numbers, fails, () => false)).toEqual(needed);
  expect(requested).toBeLessThan(80);
});

it('ends when the time is over, with the shortest failing list', async () => {
  let requested = 0;
  const fails = async (items: number[]) => ++requested > 0 && items.includes(39);
  const found = await shrink(numbers, fails, () => requested >= 4);
  expect(found).toContain(39);
  expect(found.length).toBeLessThan(40);
  expect(requested).toBe(4);
});

it('ends at once if the failure does not repeat', async () => {
  let requested = 0;
  const fails = async () => ++requested < 1;
  expect(await shrink(numbers, fails, () => false)).toBe(numbers);
  expect(requested).toBe(1);
});

it('draws the same steps for the same seed, and no excluded ones', () => {
  const options = { without: ['prepare'], only: [] };
  const draw = (seed: number) => drawSteps(new Draw(seed, 0), options);
  expect(draw(5)).toEqual(draw(5));
  expect(draw(5)).not.toEqual(draw(6));
  const steps = numbers.flatMap(draw);
  expect(steps.filter((step) => step.do === 'write' && step.end === 'prepare')).toEqual([]);
  const only = drawSteps(new Draw(1, 0), { without: [], only: ['clock set'] });
  expect(new Set(only.flatMap((step) => (step.do === 'fault' ? [step.fault] : [])))).toEqual(
    new Set(['clock set']),
  );
});
