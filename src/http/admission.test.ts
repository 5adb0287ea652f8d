import { beforeEach, describe, expect, it, vi } from 'vitest';
import { HotelSizes } from '../hotels/hotel-sizes.ts';
import { fakeTimers } from '../lib/clock.fixture.ts';
import { monotonicMs } from '../lib/clock.ts';
import { EventLoop } from '../lib/event-loop.ts';
import { Admission, NEEDS_LOAD, type Work } from './admission.ts';

const BODY = new Uint8Array(13_000);

/** Batch that occupies the event loop, or is loaded until `finish`. */
class Batch implements Work {
  state: 'new' | 'running' | 'answered' | 'rejected' = 'new';
  over = false;
  received = '';
  readonly bytes = BODY.length;
  readonly client = this;
  readonly owner: string;
  finish = () => {};
  takesMs: number;
  readonly #local: boolean;

  constructor({ takesMs = 0, local = true, owner = 'me' } = {}) {
    this.owner = owner;
    this.takesMs = takesMs;
    this.#local = local;
  }

  run(body: Uint8Array, mayLoad: boolean, done: () => void): typeof NEEDS_LOAD | undefined {
    if (!this.#local && !mayLoad) return NEEDS_LOAD;
    this.state = 'running';
    this.received = Buffer.from(body).toString('latin1');
    spent += this.takesMs;
    this.finish = () => {
      this.state = 'answered';
      done();
    };
    if (this.#local) this.finish();
    return undefined;
  }

  reject: Work['reject'] = () => {
    this.state = 'rejected';
  };
}

/** CPU time of batches, in addition to the time between ticks */
let spent = 0;
let admission: Admission;
let sizes: HotelSizes;
beforeEach(() => {
  sizes = new HotelSizes();
  fakeTimers(() => spent);
  spent = 0;
  admission = new Admission(new EventLoop(), sizes);
});

const enter = (batches: Batch[]) => {
  for (const batch of batches) admission.enter(BODY, batch);
};
const many = (count: number, options?: ConstructorParameters<typeof Batch>[0]) =>
  Array.from({ length: count }, () => new Batch(options));
const count = (batches: Batch[], state: Batch['state']) =>
  batches.filter((batch) => batch.state === state).length;
const tick = () => vi.advanceTimersToNextTimerAsync();

describe('batches from the local cache', () => {
  it('keep copies of their bodies while they wait', async () => {
    const sizes = [10, 4_096, 5_000, 5_000, 13_000, 13_001, 32_768, 40_000];
    for (let round = 0; round < 3; round++) {
      const bodies = sizes.map((size, i) => Buffer.alloc(size, `${round}${i} `));
      enter([new Batch({ takesMs: 11 })]);
      const batches = bodies.map((body) => {
        const memory = Buffer.from(body);
        const batch = new Batch();
        admission.enter(memory, batch);
        memory.fill(0);
        return batch;
      });
      while (admission.waiting > 0) await tick();
      expect(batches.map(({ received }) => received)).toEqual(bodies.map((body) => body.toString('latin1')));
    }
  });

  it('take at most 10 ms of a tick, and the others follow in order, but those of clients that disconnected', async () => {
    const batches = many(31, { takesMs: 1 });
    enter(batches);
    expect(count(batches, 'answered')).toBe(10);
    expect(admission.waiting).toBe(21);
    batches[10]!.over = true;
    await tick();
    expect(batches.findLastIndex(({ state }) => state === 'answered')).toBe(20);
    const late = new Batch({ takesMs: 1 });
    enter([late]);
    expect(late.state).toBe('new');
    await tick();
    expect([count(batches, 'answered'), late.state]).toEqual([30, 'new']);
    await tick();
    expect([late.state, batches[10]!.state]).toEqual(['answered', 'new']);
    expect(admission.waiting).toBe(0);
  });

  it('are rejected if they would wait for more than 150 ms, and accepted again when the others are answered', async () => {
    const beganMs = monotonicMs();
    const batches = many(1_000, { takesMs: 0.3 });
    enter(batches);
    const rejected = count(batches, 'rejected');
    // 150 ms suffice for 500 of them
    expect(rejected).toBeGreaterThan(400);
    expect(rejected).toBeLessThan(550);
    expect(admission.isFull('me')).toBe(true);
    while (admission.waiting > 0) await tick();
    expect(count(batches, 'answered')).toBe(1_000 - rejected);
    expect(monotonicMs() - beganMs).toBeLessThan(400);
    expect(admission.isFull('me')).toBe(false);
    const next = new Batch();
    enter([next]);
    expect(next.state).toBe('answered');
  });
});

it('pages wait as long as it takes, and batches of other keys are not rejected for that', async () => {
  const pages = [...many(100, { takesMs: 10 }), ...many(100, { takesMs: 10, local: false })];
  for (const page of pages) page.reject = undefined;
  enter(pages);
  await vi.advanceTimersByTimeAsync(700);
  const other = new Batch({ owner: 'other' });
  enter([other]);
  await tick();
  expect(other.state).toBe('answered');
  while (admission.waiting > 0) {
    await tick();
    for (const page of pages) if (page.state === 'running') page.finish();
  }
  expect(count(pages, 'answered')).toBe(200);
});

describe('batches that must be loaded', () => {
  it('never delay those that the local cache answers', async () => {
    const stuck = many(100, { local: false });
    enter(stuck);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(admission.waiting).toBeGreaterThan(0);
    expect(admission.isFull('me')).toBe(false);
    const local = many(20);
    for (const batch of local) {
      enter([batch]);
      await tick();
    }
    expect(count(local, 'answered')).toBe(20);
  });

  it('are rejected while none is answered, first new ones, then waiting ones', async () => {
    const stuck = many(30, { local: false });
    enter(stuck);
    await vi.advanceTimersByTimeAsync(201);
    const late = new Batch({ local: false });
    enter([late]);
    expect(late.state).toBe('rejected');
    await vi.advanceTimersByTimeAsync(500);
    const running = stuck.filter(({ state }) => state === 'running');
    for (const batch of running) batch.finish();
    await tick();
    expect(count(stuck, 'rejected')).toBe(30 - running.length);
    expect(admission.waiting).toBe(0);
    expect(admission.isFull('me')).toBe(false);
  });

  it('are loaded with less concurrency when they are slow, and with more when they are fast', async () => {
    const atOnceWhen = async (takesMs: number) => {
      let running = 0;
      for (let round = 0; round < 60; round++) {
        const batches = many(120, { local: false });
        enter(batches);
        running = count(batches, 'running');
        for (;;) {
          const under = batches.filter(({ state }) => state === 'running');
          if (under.length === 0) break;
          await vi.advanceTimersByTimeAsync(takesMs);
          for (const batch of under) batch.finish();
          await tick();
        }
      }
      return running;
    };
    const first = await atOnceWhen(10);
    expect(first).toBeGreaterThan(12);
    expect(await atOnceWhen(80)).toBeLessThanOrEqual(3);
    expect(await atOnceWhen(10)).toBeGreaterThan(12);
  });
});

it('batches with large responses are made one at a time, and weigh in the share of their key', async () => {
  sizes.note('large', 1_000, 20_000_000);
  const own = many(8, { local: false, owner: 'large' });
  enter(own);
  expect(count(own, 'running')).toBe(1);
  // the others of the key wait, and each has the size of ten usual ones
  const usual = many(19, { local: false, owner: 'usual' });
  enter(usual);
  for (let round = 0; count(usual, 'answered') < usual.length; round++) {
    for (const batch of [...own, ...usual]) if (batch.state === 'running') batch.finish();
    await tick();
    expect(round).toBeLessThan(100);
  }
  expect(count(own, 'answered')).toBeLessThanOrEqual(4);
});

describe('batches of several keys', () => {
  it('that are loaded take one limit for each key, and two in all', async () => {
    const [a, b, c] = ['a', 'b', 'c'].map((owner) => many(100, { local: false, owner }));
    for (const batches of [a!, b!, c!]) enter(batches);
    expect([a!, b!, c!].map((batches) => count(batches, 'running'))).toEqual([9, 8, 0]);
    for (const batch of b!.slice(0, 4)) batch.finish();
    for (let i = 0; i < 10; i++) await tick();
    // those of the third take turns with those of the second, not with those of the first
    expect(count(a!, 'running')).toBe(9);
    expect(count(c!, 'running')).toBeGreaterThanOrEqual(2);
  });

  it('of a key with many misses do not cause cached ones of another to be rejected', () => {
    // its misses are never loaded, and it sends more and more
    const flood = many(2_000, { local: false, owner: 'flood' });
    enter(flood);
    expect(count(flood, 'rejected')).toBeGreaterThan(1_000);
    for (let i = 0; i < 100; i++) {
      expect(admission.isFull('other')).toBe(false);
      const cached = new Batch({ owner: 'other' });
      enter([cached]);
      expect(cached.state).toBe('answered');
    }
  });

  it('with equal floods get equal shares, and a key with few requests is not rejected', async () => {
    const [a, b, other] = ['a', 'b', 'other'].map((owner) => many(2_000, { takesMs: 0.3, owner }));
    for (let i = 0; i < 2_000; i++) {
      enter([a![i]!, b![i]!]);
      if (i % 100 === 0) enter([other![i]!]);
      if (i % 40 === 39) await tick();
    }
    while (admission.waiting > 0) await tick();
    expect(count(a!, 'rejected')).toBeGreaterThan(200);
    expect(count(other!, 'rejected')).toBe(0);
    expect(count(a!, 'answered') / count(b!, 'answered')).toBeGreaterThan(0.8);
    expect(count(a!, 'answered') / count(b!, 'answered')).toBeLessThan(1.25);
  });
});
