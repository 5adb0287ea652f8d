import { beforeEach, expect, it } from 'vitest';
import { FeedSilence, MAX_FEED_SILENCE_MS } from './feed-silence.ts';

let silence: FeedSilence;

beforeEach(() => {
  silence = new FeedSilence();
  silence.received(1_000);
});

it('is infinite before the first message', () => {
  silence = new FeedSilence();
  expect(silence.ms).toBe(Infinity);
  silence.outageBegan();
  expect(silence.ms).toBe(Infinity);
});

it('counts from the last message to the last answer of PostgreSQL', () => {
  expect(silence.ms).toBe(0);
  silence.available(3_000);
  expect(silence.ms).toBe(2_000);
  silence.received(5_000);
  expect(silence.ms).toBe(0);
});

it('counts only the first second of an outage', () => {
  silence.available(3_000);
  silence.outageBegan();
  // a late answer of an earlier query
  silence.available(9_000);
  expect(silence.ms).toBe(2_000);
  silence.outageEnded(60_000);
  expect(silence.ms).toBe(3_000);
  silence.available(61_000);
  silence.outageBegan();
  expect(silence.ms).toBe(4_000);
});

it('counts an outage that is shorter than a second', () => {
  silence.available(1_500);
  silence.outageBegan();
  silence.outageEnded(1_750);
  expect(silence.ms).toBe(750);
});

it('passes its maximum in time while the circuit breaker opens and closes', () => {
  let nowMs = 1_000;
  while (silence.ms <= MAX_FEED_SILENCE_MS) {
    silence.outageBegan();
    nowMs += 250;
    silence.outageEnded(nowMs);
    nowMs += 20;
    silence.available(nowMs);
  }
  expect(nowMs - 1_000).toBeLessThan(MAX_FEED_SILENCE_MS + 270);
});

it('keeps the time between a message and the last answer, if the message is read in an outage', () => {
  silence.available(3_000);
  silence.outageBegan();
  silence.received(1_500);
  expect(silence.ms).toBe(1_500);
});

it('counts from a message that arrives in an outage', () => {
  silence.available(3_000);
  silence.outageBegan();
  silence.received(4_000);
  expect(silence.ms).toBe(0);
  silence.outageEnded(8_000);
  silence.available(9_000);
  expect(silence.ms).toBe(2_000);
});

it('counts a stop of the process, in an outage too', () => {
  silence.stopped(1_000, 4_000);
  expect(silence.ms).toBe(3_000);
  silence.outageBegan();
  silence.stopped(5_000, 15_000);
  expect(silence.ms).toBe(13_000);
  silence.outageEnded(15_500);
  expect(silence.ms).toBe(13_500);
});

it('counts a stop after a message that was received before it and is read after it', () => {
  silence.available(3_000);
  silence.outageBegan();
  silence.received(4_000);
  silence.stopped(5_000, 15_000);
  silence.received(4_500);
  expect(silence.ms).toBe(10_500);
});

it('counts a stop that is noticed after the outage has ended', () => {
  silence.outageBegan();
  silence.outageEnded(15_001);
  silence.stopped(5_000, 15_002);
  expect(silence.ms).toBeGreaterThanOrEqual(10_000);
});

it('lets the total grow with messages of an outage that only this process has', () => {
  silence.outageBegan();
  for (let atMs = 1_500; atMs <= 10_000; atMs += 500) silence.received(atMs);
  expect([silence.availableMs, silence.ms]).toEqual([9_000, 0]);
});

it('counts a stop only from the last message', () => {
  silence.outageBegan();
  silence.received(14_000);
  silence.stopped(5_000, 15_000);
  expect(silence.ms).toBe(1_000);
});

it('counts the time for which the machine slept', () => {
  silence.available(2_000);
  silence.outageBegan();
  silence.slept(60_000);
  expect(silence.ms).toBe(61_000);
});

it('does not count an outage as time for which PostgreSQL was available', () => {
  silence.available(3_000);
  silence.outageBegan();
  silence.outageEnded(60_000);
  silence.available(60_500);
  silence.received(60_400);
  expect([silence.availableMs, silence.ms]).toEqual([3_500, 100]);
});
