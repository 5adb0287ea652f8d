import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { LocalCache } from './local.ts';
import type { Namespace } from './namespace.ts';
import { hotel, NOW_MS } from './slab/slab.fixture.ts';

const HOUR_MS = 3_600_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: NOW_MS });
});
afterEach(() => {
  vi.useRealTimers();
});

it('what was gathered holds although some of it is to be refreshed', async () => {
  const refreshed: [Namespace, string[]][] = [];
  const local: LocalCache = new LocalCache(1024 ** 2, {
    isLinked: () => true,
    absentTtlMs: 1_000,
    // as the reader does: it looks into the cache again, by keys of its own
    refresh: (namespace, keys) => {
      for (const key of keys) local.held(namespace, key);
      refreshed.push([namespace, keys]);
    },
    count: () => {},
  });
  for (const id of ['a', 'b']) local.store(hotel({ id, channel_id: `channel-of-${id}` }));
  // past the refresh of every entry, not past its greatest age
  vi.setSystemTime(NOW_MS + 0.5 * HOUR_MS);
  const body = Buffer.from('{"channel_ids":["missing","channel-of-a","channel-of-b"]}');
  const gathered = local.gatherBody('channel', body, 'full')!;
  expect([gathered.hits, gathered.misses]).toEqual([2, 1]);
  expect(gathered.takeGapped().keys).toEqual(['missing']);
  expect(refreshed).toEqual([]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(refreshed).toEqual([['channel', ['channel-of-a', 'channel-of-b']]]);
});
