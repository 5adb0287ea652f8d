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
let isFeedUp: boolean;
let counts: Options['counts'];
let setWallClock: (byMs: number) => void;
const store = () => local.store(hotel({ id: 'a', channel_id: 'CH', registry_id: '7' }));
const isHeld = () => local.find('id', 'a') > 0;
const cacheWith = (refresh: Options['refresh']) =>
  new LocalCache(1024 ** 2, { isFeedUp: () => isFeedUp, absentTtlMs: 60_000, refresh, counts });

beforeEach(() => {
  setWallClock = fakeClocks(NOW_MS);
  isFeedUp = true;
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

describe('a local cache marked stale', () => {
  it('knows only entries stored afterwards', () => {
    store();
    expect(isHeld()).toBe(true);
    local.markAllStale();
    expect([isHeld(), local.currentOf('channel', ['CH'])]).toEqual([false, undefined]);
    vi.advanceTimersByTime(1);
    store();
    expect(isHeld()).toBe(true);
  });

  it('still returns the last known entry, for an outage of PostgreSQL', () => {
    store();
    local.storeAbsent('id', 'nobody', true);
    local.markAllStale();
    expect(local.lastKnown('registry', '7')).toMatchObject({ id: 'a' });
    expect(local.lastKnown('id', 'nobody')).toBeNull();
  });

  it('returns no entry after the stale ones were dropped', () => {
    store();
    local.storeAbsent('id', 'nobody', true);
    local.markAllStale();
    local.dropStale(monotonicMs());
    expect(local.lastKnown('registry', '7')).toBeUndefined();
    expect(local.lastKnown('id', 'nobody')).toBeUndefined();
    vi.advanceTimersByTime(1);
    store();
    local.markAllStale();
    expect(local.lastKnown('registry', '7')).toMatchObject({ id: 'a' });
  });

  it('returns an entry that only a later call marked, after the entries of an earlier one were dropped', () => {
    local.markAllStale();
    const markedAtMs = monotonicMs();
    vi.advanceTimersByTime(1);
    store();
    local.markAllStale();
    local.dropStale(markedAtMs);
    expect(local.lastKnown('registry', '7')).toMatchObject({ id: 'a' });
  });
});

it('the age of an entry does not depend on steps of the wall clock', () => {
  isFeedUp = false;
  store();
  setWallClock(-3 * HOUR_MS);
  expect(isHeld()).toBe(true);
  vi.advanceTimersByTime(3_301);
  expect(isHeld()).toBe(false);
  store();
  setWallClock(3 * HOUR_MS);
  expect(isHeld()).toBe(true);
});

it('an absence expires in time although the wall clock is set back', () => {
  local.storeAbsent('id', 'nobody', true);
  setWallClock(-3 * HOUR_MS);
  vi.advanceTimersByTime(60_001);
  expect(local.find('id', 'nobody')).toBe(MISS);
});

it('dropping the entries from Redis since a time drops their keys and no other entry', () => {
  const ids = Array.from({ length: 30 }, (_, i) => `h${i}`);
  const sinceMs: number[] = [];
  for (const id of ids) {
    vi.advanceTimersByTime(1);
    sinceMs.push(monotonicMs());
    local.storeBytes(hotel({ id, channel_id: `C-${id}` }).bytes, true);
    local.storeAbsent('channel', `no-${id}`, true);
    local.store(hotel({ id: `own-${id}` }));
  }
  local.dropFromRedisSince(sinceMs[20]!);
  expect(ids.map((id) => local.find('id', id) > 0)).toEqual(ids.map((_, i) => i < 20));
  expect(ids.map((id) => local.find('channel', `C-${id}`) > 0)).toEqual(ids.map((_, i) => i < 20));
  expect(ids.map((id) => local.find('channel', `no-${id}`))).toEqual(
    ids.map((_, i) => (i < 20 ? ABSENT : MISS)),
  );
  expect(local.arena.stats()).toMatchObject({ entries: 50, absences: 20 });
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
    local.storeAbsent('registry', '7', true);
    const present = hotel({ id: 'present', channel_id: 'CH', version: 2, description });
    local.offer('channel', 'CH', present);
    expect(local.find('id', 'present')).toBeGreaterThan(0);
    const mapped = hotel({ id: 'mapped', registry_id: '7', version: 2, description });
    local.offer('registry', '7', mapped);
    expect(local.find('id', 'mapped')).toBeGreaterThan(0);
  });

  it('replace a held entry also while the cache is full', () => {
    countStored(0, 2_000, false);
    countStored(0, 64);
    for (let i = 1_999; i > 1_989; i--) expect(countStored(i, i + 1)).toBe(1);
  });

  it('are all stored again after all became stale, until the cache is as full as before', () => {
    countStored(0, 2_000, false);
    const { entries } = local.arena.stats();
    local.markAllStale();
    expect(countStored(5_000, 5_000 + entries)).toBe(entries);
    expect(countStored(9_000, 9_320)).toBe(10);
  });
});
