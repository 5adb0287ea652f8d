import { beforeEach, expect, it } from 'vitest';
import { MAX_UNHEARD_MS, UnheardTime } from './unheard-time.ts';

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

it('counts only the first second of an outage', () => {
  time.available(3_000);
  time.outageBegan();
  // a late answer of an earlier query
  time.available(9_000);
  expect(time.ms).toBe(2_000);
  time.outageEnded(60_000);
  expect(time.ms).toBe(3_000);
  time.available(61_000);
  time.outageBegan();
  expect(time.ms).toBe(4_000);
});

it('counts an outage that is shorter than a second', () => {
  time.available(1_500);
  time.outageBegan();
  time.outageEnded(1_750);
  expect(time.ms).toBe(750);
});

it('passes its maximum in time while the circuit breaker opens and closes', () => {
  let nowMs = 1_000;
  while (time.ms <= MAX_UNHEARD_MS) {
    time.outageBegan();
    nowMs += 250;
    time.outageEnded(nowMs);
    nowMs += 20;
    time.available(nowMs);
  }
  expect(nowMs - 1_000).toBeLessThan(MAX_UNHEARD_MS + 270);
});

it('keeps the time between a message and the last answer, if the message is read in an outage', () => {
  time.available(3_000);
  time.outageBegan();
  time.heard(1_500);
  expect(time.ms).toBe(1_500);
});

it('counts from a message that arrives in an outage', () => {
  time.available(3_000);
  time.outageBegan();
  time.heard(4_000);
  expect(time.ms).toBe(0);
  time.outageEnded(8_000);
  time.available(9_000);
  expect(time.ms).toBe(2_000);
});

it('counts a stop of the process, in an outage too', () => {
  time.stopped(1_000, 4_000);
  expect(time.ms).toBe(3_000);
  time.outageBegan();
  time.stopped(5_000, 15_000);
  expect(time.ms).toBe(13_000);
  time.outageEnded(15_500);
  expect(time.ms).toBe(13_500);
});

it('counts a stop after a message that was received before it and is read after it', () => {
  time.available(3_000);
  time.outageBegan();
  time.heard(4_000);
  time.stopped(5_000, 15_000);
  time.heard(4_500);
  expect(time.ms).toBe(10_500);
});

it('counts a stop that is noticed after the outage has ended', () => {
  time.outageBegan();
  time.outageEnded(15_001);
  time.stopped(5_000, 15_002);
  expect(time.ms).toBeGreaterThanOrEqual(10_000);
});

it('lets the total grow with messages of an outage that only this process has', () => {
  time.outageBegan();
  for (let atMs = 1_500; atMs <= 10_000; atMs += 500) time.heard(atMs);
  expect([time.availableMs, time.ms]).toEqual([9_000, 0]);
});

it('counts a stop only from the last message', () => {
  time.outageBegan();
  time.heard(14_000);
  time.stopped(5_000, 15_000);
  expect(time.ms).toBe(1_000);
});

it('counts the time for which the machine slept', () => {
  time.available(2_000);
  time.outageBegan();
  time.slept(60_000);
  expect(time.ms).toBe(61_000);
});

it('does not count an outage as time for which PostgreSQL was available', () => {
  time.available(3_000);
  time.outageBegan();
  time.outageEnded(60_000);
  time.available(60_500);
  time.heard(60_400);
  expect([time.availableMs, time.ms]).toEqual([3_500, 100]);
});
