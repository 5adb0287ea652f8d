import { beforeEach, expect, it, vi } from 'vitest';
import { fakeClocks } from '../lib/clock.fixture.ts';
import { DAY_MS, monotonicMs } from '../lib/clock.ts';
import { ABSENT, MISS } from '../wasm/constants.ts';
import { hotel, NOW_MS } from './arena/arena.fixture.ts';
import { LocalCache } from './local-cache.ts';
import { CacheMemory } from './memory.ts';

const HOUR_MS = 3_600_000;

let local: LocalCache;
/** maximum age of what may be served */
let maxAgeMs: number;
let setWallClock: (byMs: number) => void;
const store = () => local.store(hotel({ id: 'a', channel_id: 'CH', registry_id: '7' }));
const isHeld = () => local.find('id', 'a') > 0;

beforeEach(() => {
  setWallClock = fakeClocks(NOW_MS);
  maxAgeMs = HOUR_MS;
  const freshness = { oldestReadMs: (nowMs: number) => nowMs - maxAgeMs };
  const counts = { hit: 0, absent: 0, miss: 0 };
  local = new LocalCache(new CacheMemory(1024 ** 2), { freshness, counts });
});

it('an entry is kept for half an hour to an hour, so that what was read together is not read again together', () => {
  maxAgeMs = Infinity;
  for (let n = 0; n < 100; n++) local.store(hotel({ id: `h${n}` }));
  const held = () =>
    Array.from({ length: 100 }, (_, n) => local.find('id', `h${n}`)).filter((ref) => ref > 0);
  vi.advanceTimersByTime(0.5 * HOUR_MS - 1);
  expect(held()).toHaveLength(100);
  vi.advanceTimersByTime(0.25 * HOUR_MS);
  expect(held().length).toBeGreaterThan(10);
  expect(held().length).toBeLessThan(90);
  vi.advanceTimersByTime(0.25 * HOUR_MS + 1);
  expect(held()).toEqual([]);
  expect(local.lastKnown('id', 'h0')).toMatchObject({ id: 'h0' });
});

it('what was read too long ago is not found, but known for an outage of PostgreSQL, and found when any age may be served', () => {
  store();
  local.storeAbsent('id', 'nobody');
  vi.advanceTimersByTime(2_000);
  maxAgeMs = 1_000;
  expect([isHeld(), local.find('id', 'nobody')]).toEqual([false, MISS]);
  expect(local.entryOf('channel', 'CH')).toBeUndefined();
  const body = Buffer.from('{"channel_ids":["CH"]}');
  expect(local.gatherBody('channel', body, 'full', true)).toMatchObject({ hits: 0, misses: 1 });
  expect(local.gatherKeys('channel', ['CH'], 'full', true)).toMatchObject({ hits: 0, misses: 1 });
  expect(local.lastKnown('registry', '7')).toMatchObject({ id: 'a' });
  expect(['nobody', 'another'].map((id) => local.lastKnown('id', id))).toEqual([null, undefined]);
  maxAgeMs = HOUR_MS;
  expect([isHeld(), local.find('id', 'nobody')]).toEqual([true, ABSENT]);
  maxAgeMs = 1_000;
  store();
  expect(isHeld()).toBe(true);
});

it('a hotel reads as of each day, at no greater age, also when the clock goes back', () => {
  maxAgeMs = Infinity;
  const dates = { certified_from: '2026-11-21', certified_until: '2026-11-21' };
  local.store(hotel({ id: 'a', channel_id: 'CH', certification_url: 'https://badge.example/', ...dates }));
  const body = Buffer.from('{"channel_ids":["CH"]}');
  const shown = () => [
    `[${local.lastKnown('id', 'a')!.body('full')}]`,
    `[${Buffer.from(local.arena.body(local.find('id', 'a'), 'full'))}]`,
    `${Buffer.from(local.gatherBody('channel', body, 'full', true)!.output)}`,
    `${Buffer.from(local.gatherKeys('channel', ['CH'], 'full', true)!.output)}`,
  ];
  for (const [byMs, certified] of [
    [DAY_MS - HOUR_MS, true],
    [2 * HOUR_MS, false],
    [-2 * HOUR_MS, true],
    [-DAY_MS, false],
    [2 * HOUR_MS, true],
  ] as const) {
    setWallClock(byMs);
    const ofDay = { certified, certification_url: certified ? 'https://badge.example/' : null };
    for (const array of shown()) expect([byMs, JSON.parse(array)]).toMatchObject([byMs, [ofDay]]);
  }
  vi.advanceTimersByTime(HOUR_MS);
  expect([isHeld(), local.entryOf('id', 'a')]).toEqual([false, undefined]);
});

it('ages count from the beginning of the read, and do not depend on steps of the wall clock', () => {
  maxAgeMs = 0.4 * HOUR_MS;
  const beganMs = monotonicMs();
  vi.advanceTimersByTime(0.3 * HOUR_MS);
  local.store(hotel({ id: 'a' }), beganMs);
  setWallClock(-3 * HOUR_MS);
  expect(isHeld()).toBe(true);
  vi.advanceTimersByTime(0.1 * HOUR_MS + 1);
  expect(isHeld()).toBe(false);
  store();
  setWallClock(3 * HOUR_MS);
  expect(isHeld()).toBe(true);
  local.storeAbsent('id', 'nobody');
  setWallClock(-3 * HOUR_MS);
  maxAgeMs = HOUR_MS;
  vi.advanceTimersByTime(60_001);
  expect(local.find('id', 'nobody')).toBe(MISS);
});

it('hotels and absences are dropped whose reads began at a time or later, as of a future that is lost', () => {
  for (const [name, readAtMs] of Object.entries({ before: 4_999, same: 5_000, later: 6_000 })) {
    local.store(hotel({ id: name, channel_id: `CH ${name}` }), readAtMs);
    local.storeAbsent('id', `not ${name}`, readAtMs);
  }
  local.dropSince(5_000);
  const known = (...keys: string[]) => keys.map((key) => local.lastKnown('id', key));
  expect(known('before', 'not before')).toEqual([expect.objectContaining({ id: 'before' }), null]);
  expect(known('same', 'later', 'not same', 'not later')).toEqual(new Array(4).fill(undefined));
  expect(local.lastKnown('channel', 'CH later')).toBeUndefined();
});
