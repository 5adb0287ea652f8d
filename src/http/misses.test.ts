import { beforeEach, expect, it } from 'vitest';
import type { Principal } from '../auth/principal.ts';
import { hotel } from '../cache/arena/arena.fixture.ts';
import { Unavailable } from '../errors.ts';
import type { Entry } from '../hotels/entry.ts';
import { HotelSizes } from '../hotels/hotel-sizes.ts';
import { showMonotonic } from '../lib/clock.fixture.ts';
import { nextIteration } from '../lib/clock.ts';
import type { Exchange } from './exchange.ts';
import { Misses } from './misses.ts';

const description = 'x'.repeat(60_000);
const small = new Map<string, Entry>();
const large = new Map<string, Entry>();
for (let i = 0; i < 200; i++) {
  small.set(`s${i}`, hotel({ id: `s${i}` }));
  large.set(`l${i}`, hotel({ id: `l${i}`, description }));
}

const load = (exchange: Exchange, keys: string[], hitsBytes = 0) =>
  misses.load(exchange, 'id', keys, 'turns', hitsBytes);
let nowMs: number;
let parts: { keys: string[]; answer: () => void }[];
let released: string[];
let members: Set<string>;
let mayAnswer: (exchange: Exchange) => boolean;
let answersAtOnce: boolean;
let mustWait: boolean;
let misses: Misses;

/** Requests as their responses read them. */
const requestOf = (owner: string, collection: string | null = null) => {
  const principal = { keyId: owner, collection, view: 'full' } as unknown as Principal;
  const exchange = { owner, over: false, principal, startedAtMs: -Infinity };
  return { ...exchange, releaseLoad: () => released.push(owner) } as unknown as Exchange & { over: boolean };
};

beforeEach(() => {
  nowMs = 0;
  showMonotonic(() => nowMs);
  parts = [];
  released = [];
  members = new Set();
  mayAnswer = () => true;
  [answersAtOnce, mustWait] = [false, false];
  const load = (_: string, keys: string[]) => {
    const { promise, resolve } = Promise.withResolvers<(Entry | null)[]>();
    const found = keys.map((key) => small.get(key) ?? large.get(key) ?? null);
    parts.push({ keys, answer: () => resolve(found) });
    if (answersAtOnce) resolve(found);
    return promise;
  };
  const onlyMembers = async (_: string, found: (Entry | null)[]) =>
    found.map((entry) => (entry && members.has(entry.id) ? entry : null));
  const access = { mayStillAnswer: (exchange: Exchange) => mayAnswer(exchange) };
  const reader = { load, mustWait: () => mustWait };
  misses = new Misses({ reader, access, sizes: new HotelSizes(), collections: { onlyMembers } } as never);
});

/** Answers every part until none follows; returns how many hotels each asked for. */
async function answerAll(): Promise<number[]> {
  const sizes: number[] = [];
  for (let part = await nextPart(); part; part = await nextPart()) {
    sizes.push(part.keys.length);
    part.answer();
  }
  return sizes;
}

async function nextPart() {
  for (let i = 0; i < 5 && parts.length === 0; i++) await nextIteration();
  return parts.shift();
}

const largeKeys = [...large.keys()];

it('reads as many hotels at once as have room in one iteration, in the requested order', async () => {
  const keys = [...largeKeys.slice(0, 10), 'none', ...largeKeys.slice(10, 70), ...small.keys()];
  const loading = load(requestOf('a'), keys);
  const sizes = await answerAll();
  expect(released).toEqual(['a']);
  expect(sizes.slice(0, 3)).toEqual([32, 35, 34]);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(100);
  expect((await loading)!.map((found) => found?.id ?? 'none')).toEqual(keys);
});

it('reads one part in an iteration of the event loop, although caches hold all', async () => {
  answersAtOnce = true;
  const loading = Promise.all(['a', 'b', 'c'].map((owner) => load(requestOf(owner), largeKeys)));
  const sizes: number[] = [];
  for (let isOver = false; !isOver; ) {
    isOver = await Promise.race([loading.then(() => true), nextIteration().then(() => false)]);
    sizes.push(...parts.splice(0).map(({ keys }) => keys.length), 0);
  }
  expect(sizes.filter((size, i) => size > 0 && sizes[i - 1]! > 0)).toEqual([]);
  expect(Math.max(...sizes)).toBeLessThan(40);
});

it('reads one batch at a time, and keys take turns', async () => {
  const ended: string[] = [];
  const begin = (owner: string) =>
    load(requestOf(owner), largeKeys.slice(0, 10)).then(() => ended.push(owner));
  const all = ['a', 'a', 'a', 'b'].map(begin);
  for (let i = 0; i < all.length; i++) {
    const part = await nextPart();
    expect(parts).toEqual([]);
    part!.answer();
  }
  await Promise.all(all);
  expect(ended).toEqual(['a', 'a', 'b', 'a']);
});

it('rejects what would wait behind too many of its key, or with too many bytes, and goes on behind a failure', async () => {
  const waiting = Array.from({ length: 17 }, () => load(requestOf('a'), ['l1']));
  await expect(load(requestOf('a'), ['l1'])).rejects.toThrow(Unavailable);
  waiting.push(load(requestOf('b'), ['l1'], 60 * 1024 ** 2));
  await expect(load(requestOf('b'), ['l1'], 5 * 1024 ** 2)).rejects.toThrow(Unavailable);
  waiting.push(load(requestOf('c'), ['l1'], 60 * 1024 ** 2));
  await expect(load(requestOf('d'), ['l1'], 30 * 1024 ** 2)).rejects.toThrow(Unavailable);
  const first = await nextPart();
  mayAnswer = () => {
    mayAnswer = () => true;
    throw new Unavailable('the key cannot be judged', 'overload');
  };
  first!.answer();
  const answered = answerAll();
  const results = await Promise.allSettled(waiting);
  await answered;
  expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(1);
  const last = load(requestOf('c'), ['l1'], 64 * 1024 ** 2);
  (await nextPart())!.answer();
  expect(await last).toHaveLength(1);
});

it('is answered by nobody if the key was revoked, or the client has left, meanwhile', async () => {
  const [revoked, left] = [requestOf('a'), requestOf('a')];
  const loading = [revoked, left].map((each) => load(each, largeKeys));
  const part = await nextPart();
  mayAnswer = (exchange) => exchange !== revoked;
  left.over = true;
  part!.answer();
  expect(await answerAll()).toEqual([]);
  expect(await Promise.all(loading)).toEqual([undefined, undefined]);
});

it('contains nothing that has left the collection, and fails if the key has moved to another', async () => {
  members = new Set(['l1', 'l2', 'l3']);
  const moved = requestOf('b', 'first');
  const loading = load(requestOf('a', 'first'), ['l1', 'l2', 'l3']);
  const failing = load(moved, ['l1']);
  const part = await nextPart();
  members = new Set(['l1', 'l3']);
  nowMs += 601;
  part!.answer();
  expect((await loading)!.map((found) => found?.id)).toEqual(['l1', undefined, 'l3']);
  const last = await nextPart();
  moved.principal = { ...moved.principal!, collection: 'second' };
  last!.answer();
  await expect(failing).rejects.toThrow(/key has changed/);
});

it('lets other loads begin while a lookup waits, and holds a bounded number of bytes of a key meanwhile', async () => {
  mustWait = true;
  const apart = (owner: string, mib: number) =>
    misses.load(requestOf(owner), 'id', ['l1'], 'lookup', mib * 1024 ** 2);
  const loading = [apart('a', 60)];
  expect(released).toEqual(['a']);
  await expect(apart('a', 5)).rejects.toThrow(/more batches of large hotels wait/);
  loading.push(apart('b', 5));
  for (const { answer } of parts.splice(0)) answer();
  await Promise.all(loading);
  // and afterwards nothing
  loading.push(apart('a', 60));
  parts.pop()!.answer();
  for (const found of await Promise.all(loading)) expect(found).toHaveLength(1);
});

it('chooses how misses are read by their number, and by the sizes that the key reads', () => {
  const sizes = new HotelSizes();
  const wayOf = (hotels: number, isUsable = true, collection: string | null = null, isLarge = false) =>
    new Misses({ redisBatch: { isUsable }, sizes } as never).wayOf(
      requestOf('a', collection),
      hotels,
      isLarge,
    );
  expect([100, 101].map((hotels) => wayOf(hotels))).toEqual(['lookup', 'redis']);
  expect([wayOf(101, false), wayOf(101, true, 'c')]).toEqual(['lookup', 'lookup']);
  expect(wayOf(101, true, null, true)).toBe('turns');
  sizes.note('a', 100, 100 * 65_536);
  expect([128, 129].map((hotels) => wayOf(hotels))).toEqual(['redis', 'turns']);
});
