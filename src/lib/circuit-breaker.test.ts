import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CircuitBreaker } from './circuit-breaker.ts';
import { fakeTimers, realClocks } from './clock.fixture.ts';

const PROBE_EVERY_MS = 200;
let answers: boolean;
let probes: number;
let announced: [open: boolean, reason: string][];
let breaker: CircuitBreaker;

beforeEach(() => {
  fakeTimers();
  answers = false;
  probes = 0;
  announced = [];
  const probe = async () => {
    probes++;
    if (!answers) throw new Error('unavailable');
  };
  breaker = new CircuitBreaker(probe, (open, reason) => announced.push([open, reason]));
});
afterEach(() => {
  breaker.close();
  realClocks();
});

const fail = (times: number) => {
  for (let i = 0; i < times; i++) breaker.failed(`failure ${i + 1}`);
};

/** Every probe waits for `answer`. */
const breakerThatWaits = (answer: Promise<void>) => {
  const probe = () => {
    probes++;
    return answer;
  };
  return new CircuitBreaker(probe, () => {});
};

describe('a circuit breaker', () => {
  it('opens on the third failure in a row, and reports the reason once', () => {
    fail(2);
    expect(breaker.open).toBe(false);
    fail(3);
    expect(breaker.open).toBe(true);
    expect(announced).toEqual([[true, 'failure 1']]);
  });

  it('opens at once on a failure that is certain', () => {
    breaker.failed('no reply on any connection', true);
    expect(announced).toEqual([[true, 'no reply on any connection']]);
  });

  it('stays closed while successes come between the failures', () => {
    for (let i = 0; i < 10; i++) {
      fail(2);
      breaker.succeeded();
    }
    expect(breaker.open).toBe(false);
  });

  it('probes at once on a recovery hint', async () => {
    fail(3);
    answers = true;
    breaker.probeNow();
    expect([breaker.open, probes]).toEqual([true, 1]);
    await vi.advanceTimersByTimeAsync(0);
    expect(breaker.open).toBe(false);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(probes).toBe(1);
  });

  it('continues the regular probes after a wrong recovery hint', async () => {
    const { promise: silence, reject } = Promise.withResolvers<void>();
    const silent = breakerThatWaits(silence);
    silent.failed('unavailable', true);
    await vi.advanceTimersByTimeAsync(PROBE_EVERY_MS);
    silent.probeNow();
    expect(probes).toBe(2);
    // only the newer of two failed probes schedules the next one
    reject(new Error('unavailable'));
    await vi.advanceTimersByTimeAsync(PROBE_EVERY_MS);
    expect(probes).toBe(3);
    silent.close();
  });

  it('probes at the interval while it is open, and closes on the first success', async () => {
    fail(3);
    await vi.advanceTimersByTimeAsync(5 * PROBE_EVERY_MS);
    expect([probes, breaker.open]).toEqual([5, true]);
    answers = true;
    await vi.advanceTimersByTimeAsync(PROBE_EVERY_MS);
    expect(breaker.open).toBe(false);
    expect(announced).toEqual([
      [true, 'failure 3'],
      [false, 'probe succeeded'],
    ]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(probes).toBe(6);
  });

  it('stays open after a late success of a call that began before', async () => {
    fail(3);
    breaker.succeeded();
    expect(breaker.open).toBe(true);
  });

  it('runs one probe at a time, however long it takes', async () => {
    breaker.close();
    const { promise, resolve } = Promise.withResolvers<void>();
    const slow = breakerThatWaits(promise);
    slow.failed('once', true);
    await vi.advanceTimersByTimeAsync(10 * PROBE_EVERY_MS);
    expect([probes, slow.open]).toEqual([1, true]);
    resolve();
    await vi.advanceTimersByTimeAsync(0);
    expect(slow.open).toBe(false);
    slow.close();
  });

  it('sends no probe and reports no change after close()', async () => {
    fail(3);
    breaker.close();
    answers = true;
    await vi.advanceTimersByTimeAsync(60_000);
    expect([probes, announced.length]).toEqual([0, 1]);
  });
});
