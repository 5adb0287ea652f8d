import { expect, it } from 'vitest';
import { showMonotonic } from '../lib/clock.fixture.ts';
import { ResponseSizes } from './response-sizes.ts';

const BODY = 13_000;

it('weighs a batch by the largest responses of its key, which are forgotten with time alone', () => {
  let nowMs = 0;
  showMonotonic(() => nowMs);
  const sizes = new ResponseSizes();
  const usual = sizes.weightOf('small', BODY);
  sizes.note('large', BODY, 20 * 100 * usual);
  for (let i = 0; i < 1000; i++) for (const owner of ['large', 'small']) sizes.note(owner, BODY, 100 * usual);
  expect(sizes.weightOf('large', BODY)).toBeCloseTo(20 * usual);
  expect(sizes.weightOf('small', BODY)).toBe(usual);
  nowMs = 20_000;
  expect(sizes.weightOf('large', BODY)).toBeCloseTo(10 * usual);
  nowMs = 120_000;
  expect(sizes.weightOf('large', BODY)).toBe(usual);
});
