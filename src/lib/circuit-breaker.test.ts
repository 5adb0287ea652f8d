import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { CircuitBreaker } from './circuit-breaker.ts';
import { fakeTimers } from './clock.fixture.ts';

const PROBE_EVERY_MS = 200;
let answer: Promise<void>;
let probes: number;
let announced: [open: boolean, reason: string][];
let breaker: CircuitBreaker;

beforeEach(() => {
  fakeTimers();
  answer = Promise.reject(new Error('unavailable'));
  answer.catch(() => {});
  probes = 0;
  announced = [];
  const probe = () => {
    probes++;
    return answer;
  };
  breaker = new CircuitBreaker(probe, (open, reason) => announced.push([open, reason]));
});
afterEach(() => {
  breaker.stop();
});

const fail = (times: number) => {
  for (let i = 0; i < times; i++) breaker.failed(`failure ${i + 1}`);
};

it('opens on the third failure in a row, and reports the reason once', () => {
  for (let i = 0; i < 10; i++) {
    fail(2);
    breaker.succeeded();
  }
  fail(2);
  expect(breaker.open).toBe(false);
  fail(3);
  // a late success of a call that began before
  breaker.succeeded();
  expect([breaker.open, announced]).toEqual([true, [[true, 'failure 1']]]);
});

it('opens at once on a failure that is certain, and probes at once on a recovery hint', async () => {
  breaker.failed('no reply on any connection', true);
  expect(announced).toEqual([[true, 'no reply on any connection']]);
  answer = Promise.resolve();
  breaker.probeNow();
  expect([breaker.open, probes]).toEqual([true, 1]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([breaker.open, probes]).toEqual([false, 1]);
});

it('probes at the interval while it is open, and closes on the first success', async () => {
  fail(3);
  await vi.advanceTimersByTimeAsync(5 * PROBE_EVERY_MS);
  expect([probes, breaker.open]).toEqual([5, true]);
  answer = Promise.resolve();
  await vi.advanceTimersByTimeAsync(PROBE_EVERY_MS);
  expect(announced).toEqual([
    [true, 'failure 3'],
    [false, 'probe succeeded'],
  ]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([probes, breaker.open]).toEqual([6, false]);
});

it('runs one probe at a time, however long it takes, and continues them after a wrong recovery hint', async () => {
  const { promise, reject } = Promise.withResolvers<void>();
  answer = promise;
  fail(3);
  await vi.advanceTimersByTimeAsync(10 * PROBE_EVERY_MS);
  expect(probes).toBe(1);
  breaker.probeNow();
  expect(probes).toBe(2);
  // only the newer of two failed probes schedules the next one
  reject(new Error('unavailable'));
  await vi.advanceTimersByTimeAsync(PROBE_EVERY_MS);
  expect([probes, breaker.open]).toEqual([3, true]);
});

it('sends no probe and reports no change after stop()', async () => {
  fail(3);
  breaker.stop();
  answer = Promise.resolve();
  await vi.advanceTimersByTimeAsync(60_000);
  expect([probes, announced.length]).toEqual([0, 1]);
});
