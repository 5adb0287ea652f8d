import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { VirtualClock } from '../lib/clock.fixture.ts';
import {
  CURRENT_WITHIN_MS,
  Freshness,
  GRACE_MS,
  MAX_AGE_MS,
  MAX_AGE_NOT_CURRENT_MS,
  MEMBERS_WITHIN_MS,
  OUTAGE_AFTER_MS,
  POSITIONS_WITHIN_MS,
  STOPPED_MS,
} from './freshness.ts';

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

/** Returns the maximum age of what is served, and whether positions and values of any age are. */
const served = () => [maxAgeMs(), freshness.mayServePositions(), freshness.mayServeAnyAge()];

describe('a worker that follows the log', () => {
  it('is current as of a time for 1.5 s, and may serve members for 0.9 s', () => {
    expect([freshness.isCurrent(), freshness.mayServeMembers()]).toEqual([false, false]);
    current();
    // news that arrive late do not set it back
    current(10_000);
    expect([freshness.isCurrent(), freshness.mayServeMembers(), freshness.asOfMs]).toEqual([
      true,
      true,
      clock.nowMs,
    ]);
    pass(MEMBERS_WITHIN_MS - 1);
    expect(freshness.mayServeMembers()).toBe(true);
    pass(1);
    expect([freshness.isCurrent(), freshness.mayServeMembers()]).toEqual([true, false]);
    pass(CURRENT_WITHIN_MS - MEMBERS_WITHIN_MS - 1);
    expect([freshness.isCurrent(), maxAgeMs()]).toEqual([true, MAX_AGE_MS]);
    pass(1);
    expect([freshness.isCurrent(), maxAgeMs()]).toEqual([false, MAX_AGE_NOT_CURRENT_MS]);
  });

  it('is current for as long as no gap was in it', () => {
    current();
    pass(1_000);
    current();
    expect([1_000, 1_001].map((ms) => freshness.isCurrentFor(ms))).toEqual([true, false]);
    pass(CURRENT_WITHIN_MS);
    expect(freshness.isCurrentFor(0)).toBe(false);
    current();
    expect([0, 1].map((ms) => freshness.isCurrentFor(ms))).toEqual([true, false]);
  });

  it('is not current any more once it follows another history, and serves nothing read before', () => {
    current();
    isUnavailable = true;
    freshness.lost();
    expect([freshness.isCurrent(), ...served()]).toEqual([false, MAX_AGE_NOT_CURRENT_MS, false, false]);
    current();
    expect(freshness.isCurrent()).toBe(true);
  });

  it('serves values up to an age of 3.3 s while only PostgreSQL answers, and positions for 4.5 s', () => {
    current();
    pass(CURRENT_WITHIN_MS);
    for (let silentMs = CURRENT_WITHIN_MS; silentMs < 10_000; silentMs += TICK_MS) {
      answered();
      // in the grace time after a late answer, the worker may still become current again
      const isGrace = silentMs > OUTAGE_AFTER_MS && silentMs < OUTAGE_AFTER_MS + GRACE_MS + TICK_MS;
      if (!isGrace)
        expect(served().slice(0, 2)).toEqual([MAX_AGE_NOT_CURRENT_MS, silentMs < POSITIONS_WITHIN_MS]);
      pass(TICK_MS);
    }
  });
});

describe('while PostgreSQL answers nothing', () => {
  beforeEach(() => current());

  it('an answer within 3.5 s after the worker was current does not end it', () => {
    pass(OUTAGE_AFTER_MS);
    answered();
    isUnavailable = true;
    pass(60_000);
    expect([...served(), freshness.unansweredAsOfMs]).toEqual([MAX_AGE_MS, true, true, freshness.asOfMs]);
  });

  it('a later answer leaves a second of grace, in which nothing is read again, although queries fail again', () => {
    isUnavailable = true;
    pass(60_000);
    isUnavailable = false;
    answered();
    expect(freshness.unansweredAsOfMs).toBe(-Infinity);
    pass(GRACE_MS - 1);
    answered();
    expect(served()).toEqual([MAX_AGE_MS, true, true]);
    isUnavailable = true;
    for (const ms of [1, 60_000]) {
      pass(ms);
      expect(served()).toEqual([MAX_AGE_NOT_CURRENT_MS, false, false]);
    }
  });

  it('ends by late news only as of a time near the answer', () => {
    pass(60_000);
    answered();
    pass(GRACE_MS);
    current(OUTAGE_AFTER_MS + 1);
    expect(served()).toEqual([MAX_AGE_NOT_CURRENT_MS, true, false]);
    pass(TICK_MS);
    current(OUTAGE_AFTER_MS);
    expect(freshness.mayServeAnyAge()).toBe(true);
  });
});

const stands = (ms: number) => {
  clock.nowMs += ms;
};
describe.each([
  ['stopped', stands],
  ['asleep with its machine, whose monotonic clock stands still', (ms: number) => freshness.slept(ms)],
])('a process that was %s', (_, stop) => {
  it('serves no value of any age, although PostgreSQL answers nothing, until it is current as of a time after it', () => {
    current();
    isUnavailable = true;
    const beforeMs = clock.nowMs;
    pass(TICK_MS);
    stop(60_000);
    // PostgreSQL may have answered others
    expect(freshness.unansweredAsOfMs).toBe(-Infinity);
    expect([freshness.isCurrent(), ...served().slice(1)]).toEqual([false, false, false]);
    // news from before, which it reads afterwards
    freshness.current(beforeMs + TICK_MS / 2);
    pass(60_000);
    expect([freshness.isCurrent(), ...served()]).toEqual([false, MAX_AGE_NOT_CURRENT_MS, false, false]);
    current();
    expect(freshness.isCurrent()).toBe(true);
    pass(10_000);
    expect(freshness.mayServeAnyAge()).toBe(true);
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
