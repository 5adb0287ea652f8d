import { beforeEach, expect, it } from 'vitest';
import { UnheardTime } from './unheard-time.ts';

let time: UnheardTime;

beforeEach(() => {
  time = new UnheardTime();
  time.heard(1_000);
});

it('is infinite before the first message', () => {
  time = new UnheardTime();
  expect(time.ms).toBe(Infinity);
  time.outageBegan();
  expect(time.ms).toBe(Infinity);
});

it('counts from the last message to the last answer of PostgreSQL', () => {
  expect(time.ms).toBe(0);
  time.available(3_000);
  expect(time.ms).toBe(2_000);
  time.heard(5_000);
  expect(time.ms).toBe(0);
});

it('does not count an outage', () => {
  time.available(3_000);
  time.outageBegan();
  // a late answer of an earlier query
  time.available(9_000);
  expect(time.ms).toBe(2_000);
  time.outageEnded(60_000);
  expect(time.ms).toBe(2_000);
  time.available(61_000);
  time.outageBegan();
  expect(time.ms).toBe(3_000);
});

it('counts from the end of an outage, if a message arrives in it', () => {
  time.available(3_000);
  time.outageBegan();
  time.heard(4_000);
  expect(time.ms).toBe(0);
  time.outageEnded(8_000);
  time.available(9_000);
  expect(time.ms).toBe(1_000);
});
