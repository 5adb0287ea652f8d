import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LocalCache } from './local.ts';
import type { Namespace } from './namespace.ts';
import { hotel, NOW_MS } from './slab/slab.fixture.ts';

const HOUR_MS = 3_600_000;

let local: LocalCache;
const store = () => local.store(hotel({ id: 'a', channel_id: 'CH', registry_id: '7' }));
const isHeld = () => local.find('id', 'a') > 0;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: NOW_MS });
  local = new LocalCache(1024 ** 2, {
    isLinked: () => true,
    absentTtlMs: 60_000,
    besideRedis: true,
    refresh: () => {},
    counts: { hit: 0, absent: 0, miss: 0 },
  });
});
afterEach(() => {
  vi.useRealTimers();
});

it('what was gathered holds although some of it is to be refreshed', async () => {
  const refreshed: [Namespace, string[]][] = [];
  const local: LocalCache = new LocalCache(1024 ** 2, {
    isLinked: () => true,
    absentTtlMs: 1_000,
    besideRedis: true,
    // as the reader does: it looks into the cache again, by keys of its own
    refresh: (namespace, keys) => {
      for (const key of keys) local.held(namespace, key);
      refreshed.push([namespace, keys]);
    },
    counts: { hit: 0, absent: 0, miss: 0 },
  });
  for (const id of ['a', 'b']) local.store(hotel({ id, channel_id: `channel-of-${id}` }));
  // past the refresh of every entry, not past its greatest age
  vi.setSystemTime(NOW_MS + 0.5 * HOUR_MS);
  const body = Buffer.from('{"channel_ids":["missing","channel-of-a","channel-of-b"]}');
  const gathered = local.gatherBody('channel', body, 'full', true)!;
  expect([gathered.hits, gathered.misses]).toEqual([2, 1]);
  expect(gathered.takeGapped().keys).toEqual(['missing']);
  expect(refreshed).toEqual([]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(refreshed).toEqual([['channel', ['channel-of-a', 'channel-of-b']]]);
});

it('a batch that is sent back because it misses something is counted when it comes again, not before', () => {
  const counts = { hit: 0, absent: 0, miss: 0 };
  local = new LocalCache(1024 ** 2, {
    isLinked: () => true,
    absentTtlMs: 60_000,
    besideRedis: true,
    refresh: () => {},
    counts,
  });
  store();
  const body = Buffer.from('{"channel_ids":["CH","missing"]}');
  expect(local.gatherBody('channel', body, 'full', false)).toBeUndefined();
  expect(counts).toEqual({ hit: 0, absent: 0, miss: 0 });
  expect(local.gatherBody('channel', body, 'full', true)).toMatchObject({ hits: 1, misses: 1 });
  expect(counts).toEqual({ hit: 1, absent: 0, miss: 1 });
});

describe('a local cache that is distrusted', () => {
  it('knows nothing but what is stored from then on', () => {
    store();
    expect(isHeld()).toBe(true);
    local.distrust();
    expect([isHeld(), local.held('channel', 'CH')]).toEqual([false, undefined]);
    vi.advanceTimersByTime(1);
    store();
    expect(isHeld()).toBe(true);
  });

  it('still tells what it knew last, for when nobody can be asked', () => {
    store();
    local.storeAbsent('id', 'nobody');
    local.distrust();
    expect(local.lastKnown('registry', '7')).toMatchObject({ id: 'a' });
    expect(local.lastKnown('id', 'nobody')).toBeNull();
  });

  it('trusts what is stored after the clock was set back', () => {
    local.distrust();
    vi.setSystemTime(Date.now() - 3_600_000);
    store();
    vi.advanceTimersByTime(1_000);
    isHeld();
    store();
    expect(isHeld()).toBe(true);
  });
});
