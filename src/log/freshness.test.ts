import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { VirtualClock } from '../lib/clock.fixture.ts';
import {
  CURRENT_WITHIN_MS,
  GRACE_MS,
  MAX_AGE_MS,
  MAX_AGE_THEN_MS,
  OUTAGE_AFTER_MS,
  POSITIONS_WITHIN_MS,
  STOPPED_MS,
  SURE_WITHIN_MS,
} from './bounds.ts';
import { Freshness } from './freshness.ts';

/** Interval of the ticks of a process. */
const TICK_MS = 100;

let clock: VirtualClock;
let isUnavailable: boolean;
let freshness: Freshness;

beforeEach(() => {
  clock = new VirtualClock();
  isUnavailable = false;
  freshness = new Freshness(() => isUnavailable);
});

/** Lets time pass for a process that runs. */
function pass(ms: number): void {
  for (const untilMs = clock.nowMs + ms; clock.nowMs < untilMs; freshness.tick())
    clock.nowMs = Math.min(untilMs, clock.nowMs + TICK_MS);
}
/** Becomes current as of now, or some time ago. */
const current = (agoMs = 0) => freshness.current(clock.nowMs - agoMs);
const answered = () => freshness.answered(clock.nowMs);
/** Returns the maximum age of what may be served. */
const maxAgeMs = () => clock.nowMs - freshness.oldestReadMs(clock.nowMs);

describe('a worker that follows the log', () => {
  it('is current as of a time for 1.5 s, and sure for 0.9 s', () => {
    expect([freshness.isCurrent(), freshness.isSure()]).toEqual([false, false]);
    current();
    expect([freshness.isCurrent(), freshness.isSure(), freshness.asOfMs]).toEqual([true, true, clock.nowMs]);
    pass(SURE_WITHIN_MS - 1);
    expect(freshness.isSure()).toBe(true);
    pass(1);
    expect([freshness.isCurrent(), freshness.isSure()]).toEqual([true, false]);
    pass(CURRENT_WITHIN_MS - SURE_WITHIN_MS - 1);
    expect([freshness.isCurrent(), maxAgeMs()]).toEqual([true, MAX_AGE_MS]);
    pass(1);
    expect([freshness.isCurrent(), maxAgeMs()]).toEqual([false, MAX_AGE_THEN_MS]);
  });

  it('is not set back by news that arrive late', () => {
    current();
    current(10_000);
    expect(freshness.asOfMs).toBe(clock.nowMs);
  });

  it('is not current any more once it follows another history, and serves nothing read before', () => {
    current();
    isUnavailable = true;
    freshness.lost();
    expect([freshness.isCurrent(), freshness.mayServeAnyAge(), freshness.mayServePositions()]).toEqual([
      false,
      false,
      false,
    ]);
    current();
    expect(freshness.isCurrent()).toBe(true);
  });
});

describe('while the log cannot be followed and PostgreSQL answers', () => {
  it('values are served up to an age of 3.3 s, and positions up to 4.5 s after the worker was current', () => {
    current();
    pass(CURRENT_WITHIN_MS);
    for (let i = 0; i < 100; i++) {
      answered();
      // in the grace time after a late answer, the worker may still become current again
      if (
        clock.nowMs - freshness.asOfMs > OUTAGE_AFTER_MS &&
        clock.nowMs - freshness.asOfMs < OUTAGE_AFTER_MS + GRACE_MS + TICK_MS
      )
        continue;
      expect(maxAgeMs()).toBe(MAX_AGE_THEN_MS);
      expect(freshness.mayServePositions()).toBe(clock.nowMs - freshness.asOfMs < POSITIONS_WITHIN_MS);
      pass(TICK_MS);
    }
  });

  it('values of any age are not served after the grace time, although queries fail again', () => {
    current();
    pass(OUTAGE_AFTER_MS + 1);
    answered();
    pass(GRACE_MS);
    isUnavailable = true;
    expect([freshness.mayServeAnyAge(), maxAgeMs()]).toEqual([false, MAX_AGE_THEN_MS]);
    pass(60_000);
    expect(freshness.mayServeAnyAge()).toBe(false);
  });
});

describe('while PostgreSQL answers nothing', () => {
  beforeEach(() => current());

  it('an answer within 3.5 s after the worker was current does not end it', () => {
    pass(OUTAGE_AFTER_MS);
    answered();
    isUnavailable = true;
    pass(60_000);
    expect(freshness.mayServeAnyAge()).toBe(true);
  });

  it('a later answer leaves a second of grace, in which nothing is read again at once', () => {
    isUnavailable = true;
    pass(60_000);
    isUnavailable = false;
    answered();
    pass(GRACE_MS - 1);
    answered();
    expect([maxAgeMs(), freshness.mayServePositions()]).toEqual([MAX_AGE_MS, true]);
    pass(1);
    expect([maxAgeMs(), freshness.mayServePositions()]).toEqual([MAX_AGE_THEN_MS, false]);
  });

  it('flapping does not prolong it: the grace time counts from the first late answer', () => {
    pass(OUTAGE_AFTER_MS + 1);
    for (let i = 0; i < 20; i++) {
      isUnavailable = i % 2 === 0;
      if (!isUnavailable) answered();
      pass(GRACE_MS / 2);
      if (i > 2) expect(freshness.mayServeAnyAge()).toBe(false);
    }
  });

  it('neither do news that are late: they end it only as of a time near the answer', () => {
    isUnavailable = true;
    pass(60_000);
    isUnavailable = false;
    answered();
    // a log that is followed with a delay
    for (let i = 0; i < 20; i++) {
      pass(TICK_MS);
      answered();
      current(OUTAGE_AFTER_MS + 20 * TICK_MS + 1);
    }
    expect([maxAgeMs(), freshness.mayServePositions(), freshness.mayServeAnyAge()]).toEqual([
      MAX_AGE_THEN_MS,
      false,
      false,
    ]);
    pass(TICK_MS);
    current(OUTAGE_AFTER_MS);
    expect(freshness.mayServeAnyAge()).toBe(true);
  });
});

describe.each([
  [
    'stopped',
    (ms: number) => {
      clock.nowMs += ms;
    },
  ],
  ['asleep with its machine, whose monotonic clock stands still', (ms: number) => freshness.slept(ms)],
])('a process that was %s', (_, stop) => {
  beforeEach(() => {
    current();
    isUnavailable = true;
  });

  it('serves no value of any age, although PostgreSQL answers nothing: it may have answered others', () => {
    stop(60_000);
    expect([freshness.mayServeAnyAge(), freshness.mayServePositions(), freshness.isCurrent()]).toEqual([
      false,
      false,
      false,
    ]);
    pass(60_000);
    expect(freshness.mayServeAnyAge()).toBe(false);
  });

  it('continues once it is current as of a time after it', () => {
    stop(60_000);
    freshness.tick();
    pass(TICK_MS);
    current();
    expect(freshness.isCurrent()).toBe(true);
    pass(10_000);
    expect(freshness.mayServeAnyAge()).toBe(true);
  });

  it('is not current by news from before, which it reads afterwards', () => {
    const beforeMs = clock.nowMs;
    pass(TICK_MS);
    stop(60_000);
    freshness.tick();
    freshness.current(beforeMs + TICK_MS / 2);
    expect([freshness.isCurrent(), freshness.mayServeAnyAge()]).toEqual([false, false]);
    expect(maxAgeMs()).toBeLessThanOrEqual(MAX_AGE_THEN_MS);
  });
});

it('what was read before a sleep of the machine is not served after it, however young it seems', () => {
  current();
  pass(TICK_MS);
  freshness.slept(60_000);
  expect(maxAgeMs()).toBe(0);
  pass(TICK_MS);
  expect(maxAgeMs()).toBe(TICK_MS);
});

it('while PostgreSQL answers, values of any age are served for 5 s after the worker was current, and an unnoticed stop', () => {
  const step = fc.oneof(
    fc.tuple(fc.constant('pass' as const), fc.integer({ min: 1, max: 2_000 })),
    fc.tuple(fc.constant('stop' as const), fc.integer({ min: 1, max: 20_000 })),
    fc.tuple(fc.constant('sleep' as const), fc.integer({ min: 600, max: 20_000 })),
    fc.tuple(fc.constant('current' as const), fc.integer({ min: 0, max: 8_000 })),
  );
  // a stop that is not noticed may hide an answer, behind which the grace time begins
  const boundMs = OUTAGE_AFTER_MS + STOPPED_MS + GRACE_MS + TICK_MS;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      freshness = new Freshness(() => true);
      current();
      for (const [does, ms] of steps) {
        if (does === 'stop') clock.nowMs += ms;
        else if (does === 'sleep') freshness.slept(ms);
        else if (does === 'current') current(ms);
        else
          for (let passedMs = 0; passedMs < ms; passedMs += TICK_MS) {
            pass(Math.min(TICK_MS, ms - passedMs));
            answered();
          }
        if (freshness.mayServeAnyAge() || freshness.mayServePositions())
          expect(clock.nowMs - freshness.asOfMs).toBeLessThanOrEqual(boundMs);
      }
    }),
  );
});
