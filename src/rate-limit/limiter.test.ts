import { beforeEach, describe, expect, it, vi } from 'vitest';
import { fakeTimers } from '../lib/clock.fixture.ts';
import { pause, setTimer } from '../lib/clock.ts';
import { RateLimitCoordinator } from './coordinator.ts';
import { RateLimiter } from './limiter.ts';
import type { LeaseRequest, RateLimit, RateLimitDecision } from './rate-limit.ts';

const SECOND = 1_000;

/** Primary and its workers. Their messages take one tick of the event loop, or are held back. */
class Instance {
  readonly coordinator = new RateLimitCoordinator();
  readonly workers: RateLimiter[];
  silent = false;
  /** time until the primary responds; 0: one tick */
  delayMs = 0;

  constructor(workers: number) {
    this.workers = Array.from(
      { length: workers },
      (_, number) => new RateLimiter(workers, (requests) => this.#answer(number, requests)),
    );
  }

  #answer(number: number, requests: LeaseRequest[]): void {
    if (this.silent) return;
    setTimer(async () => {
      this.workers[number]!.receive(await this.coordinator.grant(requests));
    }, this.delayMs);
  }

  take(worker: number, limit: RateLimit, id = 'key'): RateLimitDecision | Promise<RateLimitDecision> {
    return this.workers[worker]!.take(id, limit);
  }

  /** Sends `perSecond` requests for `seconds`, each to the worker that `choose` returns. Returns how many were admitted. */
  async load(limit: RateLimit, perSecond: number, seconds: number, choose: (i: number) => number) {
    const decisions: (RateLimitDecision | Promise<RateLimitDecision>)[] = [];
    const requests = perSecond * seconds;
    for (let i = 0; i < requests; i++) {
      decisions.push(this.take(choose(i), limit));
      await vi.advanceTimersByTimeAsync(SECOND / perSecond);
    }
    await vi.advanceTimersByTimeAsync(200);
    return (await Promise.all(decisions)).filter(({ admitted }) => admitted).length;
  }
}

beforeEach(() => fakeTimers());

describe('a limit of 200 a second', () => {
  const limit = { requests: 200, windowMs: SECOND };

  it.each<[string, workers: number, perSecond: number, choose: (i: number) => number]>([
    ['evenly on two workers', 2, 1_000, (i) => i % 2],
    ['all on one of two', 2, 1_000, () => 0],
    ['nine in ten on one', 2, 1_000, (i) => (i % 10 === 0 ? 1 : 0)],
    ['evenly on sixteen', 16, 1_000, (i) => i % 16],
    ['on another worker in each second', 4, 500, (i) => Math.floor(i / 500) % 4],
    ['just above the limit', 2, 250, (i) => i % 2],
  ])('admits within a tenth of it: %s', async (_, workers, perSecond, choose) => {
    const admitted = await new Instance(workers).load(limit, perSecond, 5, choose);
    expect(admitted).toBeGreaterThan(900);
    expect(admitted).toBeLessThan(1_100);
  });

  it('rejects no client below the limit, whichever workers get its requests', async () => {
    for (const choose of [(i: number) => i % 2, () => 0, (i: number) => (i % 17 === 0 ? 1 : 0)])
      expect(await new Instance(2).load(limit, 180, 3, choose)).toBe(540);
  });

  it('admits all requests of a window at once in one worker, and reports the remainder', async () => {
    const instance = new Instance(4);
    const decisions = Array.from({ length: 250 }, () => instance.take(0, limit));
    await vi.advanceTimersByTimeAsync(50);
    const settled = await Promise.all(decisions);
    expect(settled.map(({ admitted }) => admitted)).toEqual(Array.from({ length: 250 }, (_, i) => i < 200));
    expect(settled[199]!.remaining).toBe(0);
    expect(settled.at(-1)!.resetInMs).toBeGreaterThan(900);
    expect(await instance.take(0, limit)).toMatchObject({ admitted: false });
  });

  it('admits no more when the primary responds after its timeout', async () => {
    const instance = new Instance(2);
    instance.delayMs = 150;
    const take = async () => {
      const decisions = Array.from({ length: 150 }, () => instance.take(0, limit));
      await vi.advanceTimersByTimeAsync(200);
      return (await Promise.all(decisions)).filter(({ admitted }) => admitted).length;
    };
    expect(await take()).toBe(100);
    // 55 of the 155 that the primary has granted, and the 45 that were left
    expect(await take()).toBe(100);
    expect(await take()).toBe(0);
    instance.delayMs = 0;
    await vi.advanceTimersByTimeAsync(SECOND);
    expect(await take()).toBe(150);
  });

  it('admits its limit and no more, in a window in which the primary was late or silent', async () => {
    const instance = new Instance(2);
    const hour = { requests: 1_000, windowMs: 3_600 * SECOND };
    let admitted = 0;
    const take = async (ms: number) => {
      const pending = instance.take(0, hour);
      await vi.advanceTimersByTimeAsync(ms);
      const decision = await pending;
      if (decision.admitted) admitted++;
      expect(decision.resetInMs).toBeLessThanOrEqual(hour.windowMs);
    };
    instance.delayMs = 150;
    await take(100);
    // before the late grant of some 25
    for (let i = 0; i < 400; i++) await take(0);
    instance.delayMs = 0;
    await vi.advanceTimersByTimeAsync(200);
    for (let i = 0; i < 1_000; i++) {
      if (i === 200) instance.delayMs = 400;
      if (i === 220) instance.delayMs = 0;
      await take(i < 200 ? 1 : 150);
    }
    expect(admitted).toBe(1_000);
  });

  it('continues in equal shares while the primary is silent', async () => {
    const instance = new Instance(2);
    instance.silent = true;
    const admitted = await instance.load(limit, 1_000, 5, (i) => i % 2);
    expect(admitted).toBeGreaterThan(850);
    expect(admitted).toBeLessThan(1_150);
  });
});

it.each([
  ['of one worker', 1, () => 0],
  ['of two workers in turn', 2, (i: number) => i % 2],
  ['of four workers, from one to the next', 4, (i: number) => Math.floor(i / 70) % 4],
  ['of three workers, as it comes', 3, (i: number) => (i * i) % 3],
])('the remainder that a worker reports never grows within a window, %s', async (_, workers, choose) => {
  const instance = new Instance(workers);
  const limit = { requests: 1_000, windowMs: 60 * SECOND };
  const before: number[] = new Array(workers).fill(Number.POSITIVE_INFINITY);
  let admitted = 0;
  for (let i = 0; i < 1_300; i++) {
    const worker = choose(i);
    const pending = instance.take(worker, limit);
    await vi.advanceTimersByTimeAsync(1);
    const decision = await pending;
    expect(decision.remaining).toBeLessThanOrEqual(before[worker]!);
    if (!decision.admitted) expect(decision.remaining).toBe(0);
    admitted += decision.admitted ? 1 : 0;
    before[worker] = decision.remaining;
  }
  expect(admitted).toBe(1_000);
});

it.each([SECOND, 3_600 * SECOND])(
  'the grant of a replaced limit rejects nothing, in a window of %d ms',
  async (windowMs) => {
    const [instance, raised] = [new Instance(1), { requests: 3, windowMs }];
    void instance.take(0, { requests: 2, windowMs: 3_600 * SECOND });
    await vi.advanceTimersToNextTimerAsync();
    for (let i = 0; i < 2; i++) {
      const pending = instance.take(0, raised);
      await vi.advanceTimersByTimeAsync(200);
      expect(await pending).toMatchObject({ admitted: true });
    }
  },
);

it('a count of Redis that arrives late counts once', async () => {
  const limit = { requests: 100, windowMs: 60 * SECOND };
  let used = 0;
  let delayMs = 60;
  const coordinator = new RateLimitCoordinator(async (_, { wanted }) => {
    used += wanted;
    const left = limit.requests - used;
    await pause(delayMs);
    return { granted: wanted, left, resetInMs: 50 * SECOND };
  });
  const granted = async () => {
    const grants = coordinator.grant([{ id: 'a', limit, wanted: 10 }]);
    await vi.advanceTimersByTimeAsync(100);
    return (await grants)[0]!;
  };
  // the instance grants by itself what the late count takes from the others
  expect(await granted()).toMatchObject({ granted: 10, left: 90 });
  expect(await granted()).toMatchObject({ granted: 10, left: 80 });
  delayMs = 10;
  expect([await granted(), used]).toMatchObject([{ granted: 10, left: 70 }, 30]);
});

it('unused limits are dropped, and no reset is later than its window, at any fraction of the clock', async () => {
  const instance = new Instance(1);
  for (let i = 0; i < 20_000; i++) {
    const pending = instance.take(0, { requests: 10, windowMs: SECOND }, `key ${i}`);
    await vi.advanceTimersByTimeAsync(5.0123);
    expect((await pending).resetInMs).toBeLessThanOrEqual(SECOND);
  }
  expect(instance.workers[0]!.size).toBeLessThan(3_000);
  expect(instance.coordinator.size).toBeLessThan(3_000);
});

it.each([
  ['grants more than was asked for', { granted: 3, left: 2, resetInMs: 10 }, 2, 3],
  ['grants less although some are left', { granted: 0, left: 1, resetInMs: 10 }, 2, 3],
  ['grants a negative number', { granted: -1, left: 0, resetInMs: 10 }, 2, 3],
  ['has a window that is over', { granted: 2, left: 3, resetInMs: -10 }, 2, 3],
  ['has a longer window', { granted: 0, left: 0, resetInMs: 9e12 }, 0, 0],
])(
  'a shared count that %s lengthens no window, and is none if it is impossible',
  async (_, count, granted, left) => {
    const limit = { requests: 5, windowMs: SECOND };
    const grants = await new RateLimitCoordinator(async () => count).grant([{ id: 'a', limit, wanted: 2 }]);
    expect(grants).toEqual([{ id: 'a', granted, left, resetInMs: SECOND }]);
  },
);
