import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Namespace } from '../hotels/namespace.ts';
import { fakeClocks, realClocks } from '../lib/clock.fixture.ts';
import { monotonicMs } from '../lib/clock.ts';
import { hotel, NOW_MS } from './arena/arena.fixture.ts';
import { ABSENT, MISS } from './arena/arena.ts';
import { LocalCache } from './local-cache.ts';

const HOUR_MS = 3_600_000;

type Options = ConstructorParameters<typeof LocalCache>[1];

let local: LocalCache;
/** maximum age of what may be served */
let maxAgeMs: number;
let counts: Options['counts'];
let setWallClock: (byMs: number) => void;
const store = () => local.store(hotel({ id: 'a', channel_id: 'CH', registry_id: '7' }));
const isHeld = () => local.find('id', 'a') > 0;
const cacheWith = (refresh: Options['refresh']) =>
  new LocalCache(1024 ** 2, {
    freshness: { oldestReadMs: (nowMs) => nowMs - maxAgeMs },
    absentTtlMs: 60_000,
    refresh,
    counts,
  });

beforeEach(() => {
  setWallClock = fakeClocks(NOW_MS);
  maxAgeMs = HOUR_MS;
  counts = { hit: 0, absent: 0, miss: 0 };
  local = cacheWith(() => {});
});
afterEach(realClocks);

it('a batch response stays valid while some of its entries are refreshed', async () => {
  const refreshed: [Namespace, string[]][] = [];
  // like the reader, which looks up keys in the cache again
  local = cacheWith((namespace, keys) => {
    local.currentOf(namespace, keys);
    refreshed.push([namespace, keys]);
  });
  for (const id of ['a', 'b']) local.store(hotel({ id, channel_id: `channel-of-${id}` }));
  // past the refresh time of every entry, before its maximum age
  vi.setSystemTime(NOW_MS + 0.5 * HOUR_MS);
  const body = Buffer.from('{"channel_ids":["missing","channel-of-a","channel-of-b"]}');
  const batchLookup = local.gatherBody('channel', body, 'full', true)!;
  expect([batchLookup.hits, batchLookup.misses]).toEqual([2, 1]);
  expect(batchLookup.takePartial().keys).toEqual(['missing']);
  expect(refreshed).toEqual([]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(refreshed).toEqual([['channel', ['channel-of-a', 'channel-of-b']]]);
});

it('a batch that is returned for its misses is counted once, when it is read again', () => {
  store();
  const body = Buffer.from('{"channel_ids":["CH","missing"]}');
  expect(local.gatherBody('channel', body, 'full', false)).toBeUndefined();
  expect(counts).toEqual({ hit: 0, absent: 0, miss: 0 });
  expect(local.gatherBody('channel', body, 'full', true)).toMatchObject({ hits: 1, misses: 1 });
  expect(counts).toEqual({ hit: 1, absent: 0, miss: 1 });
});

describe('an entry that was read too long ago', () => {
  beforeEach(() => {
    store();
    local.storeAbsent('id', 'nobody');
    vi.advanceTimersByTime(2_000);
    maxAgeMs = 1_000;
  });

  it('is not found, as an absence is not, and one that was read later is', () => {
    expect([isHeld(), local.find('id', 'nobody'), local.currentOf('channel', ['CH'])]).toEqual([
      false,
      MISS,
      undefined,
    ]);
    store();
    expect(isHeld()).toBe(true);
  });

  it('is found again when values of any age may be served', () => {
    maxAgeMs = HOUR_MS;
    expect([isHeld(), local.find('id', 'nobody')]).toEqual([true, ABSENT]);
  });

  it('is known as the last one, for an outage of PostgreSQL', () => {
    expect(local.lastKnown('registry', '7')).toMatchObject({ id: 'a' });
    expect(local.lastKnown('id', 'nobody')).toBeNull();
    expect(local.lastKnown('id', 'another')).toBeUndefined();
  });

  it('is not found in a batch', () => {
    const body = Buffer.from('{"channel_ids":["CH"]}');
    expect(local.gatherBody('channel', body, 'full', true)).toMatchObject({ hits: 0, misses: 1 });
    expect(local.gatherKeys('channel', ['CH'], 'full')).toMatchObject({ hits: 0, misses: 1 });
  });
});

it('the age of an entry does not depend on steps of the wall clock', () => {
  maxAgeMs = 3_300;
  store();
  setWallClock(-3 * HOUR_MS);
  expect(isHeld()).toBe(true);
  vi.advanceTimersByTime(3_301);
  expect(isHeld()).toBe(false);
  store();
  setWallClock(3 * HOUR_MS);
  expect(isHeld()).toBe(true);
});

it('the age of an entry from PostgreSQL counts from the beginning of its query', () => {
  maxAgeMs = 3_300;
  const beganMs = monotonicMs();
  vi.advanceTimersByTime(3_000);
  local.store(hotel({ id: 'a' }), beganMs);
  expect(isHeld()).toBe(true);
  vi.advanceTimersByTime(301);
  expect(isHeld()).toBe(false);
});

describe('what was dropped', () => {
  it('by one of its ids is found by none', () => {
    store();
    local.drop('registry', '7');
    expect([isHeld(), local.find('channel', 'CH'), local.lastKnown('id', 'a')]).toEqual([
      false,
      MISS,
      undefined,
    ]);
  });

  it('as everything is not known any more', () => {
    store();
    local.storeAbsent('id', 'nobody');
    local.clear();
    expect([local.lastKnown('id', 'a'), local.lastKnown('id', 'nobody')]).toEqual([undefined, undefined]);
  });
});

it('everything is dropped if an entry was read at a later position, as of a future that is lost', () => {
  local.store(hotel({ id: 'a', label: 7 }));
  local.store(hotel({ id: 'b', label: 5 }));
  local.dropIfAfter(7);
  expect(isHeld()).toBe(true);
  local.dropIfAfter(6);
  expect([isHeld(), local.find('id', 'b')]).toEqual([false, MISS]);
  local.store(hotel({ id: 'a', label: 5 }));
  local.dropIfAfter(6);
  expect(isHeld()).toBe(true);
});

it('an absence expires in time although the wall clock is set back', () => {
  local.storeAbsent('id', 'nobody');
  setWallClock(-3 * HOUR_MS);
  vi.advanceTimersByTime(60_001);
  expect(local.find('id', 'nobody')).toBe(MISS);
});

describe('entries from Redis', () => {
  const description = 'x'.repeat(1_000);
  const countStored = (from: number, to: number, isFromRedis = true): number => {
    const { puts } = local.arena.stats();
    for (let i = from; i < to; i++) {
      const entry = hotel({ id: `h${i}`, description });
      if (isFromRedis) local.offer('id', entry.id, entry);
      else local.store(entry);
    }
    return local.arena.stats().puts - puts;
  };

  it('are all stored while there is room, then one of 32', () => {
    expect(countStored(0, 100)).toBe(100);
    countStored(100, 2_000, false);
    expect(countStored(2_000, 2_320)).toBe(10);
    // PostgreSQL is too expensive to read again
    expect(countStored(3_000, 3_100, false)).toBe(100);
  });

  it('are sampled among entries from PostgreSQL too', () => {
    countStored(0, 2_000, false);
    let stored = 0;
    for (let i = 0; i < 32; i++) {
      stored += countStored(3_000 + 20 * i, 3_020 + 20 * i);
      countStored(5_000 + i, 5_001 + i, false);
    }
    expect(stored).toBe(20);
  });

  it('replace another hotel that has one of their keys, or an absence', () => {
    countStored(0, 2_000, false);
    local.store(hotel({ id: 'former', channel_id: 'CH', description }));
    local.storeAbsent('registry', '7');
    const present = hotel({ id: 'present', channel_id: 'CH', label: 2, description });
    local.offer('channel', 'CH', present);
    expect(local.find('id', 'present')).toBeGreaterThan(0);
    const mapped = hotel({ id: 'mapped', registry_id: '7', label: 2, description });
    local.offer('registry', '7', mapped);
    expect(local.find('id', 'mapped')).toBeGreaterThan(0);
  });

  it('replace a held entry also while the cache is full', () => {
    countStored(0, 2_000, false);
    countStored(0, 64);
    for (let i = 1_999; i > 1_989; i--) expect(countStored(i, i + 1)).toBe(1);
  });

  it('are all stored again after everything was dropped, until the cache is as full as before', () => {
    countStored(0, 2_000, false);
    const { entries } = local.arena.stats();
    local.clear();
    // of these ids a few less
    expect(countStored(5_000, 5_000 + entries)).toBeGreaterThan(0.98 * entries);
    expect(countStored(9_000, 9_320)).toBe(10);
  });
});
