import type { Found } from '../../hotels/entry.ts';
import type { Namespace } from '../../hotels/namespace.ts';
import { Window } from '../../log/window.ts';
import { FakeStore } from '../../redis/store.fixture.ts';
import { localCacheIn } from '../local-cache.fixture.ts';
import { CacheMemory } from '../memory.ts';
import { RedisHotelCache } from '../redis-hotel-cache.ts';
import { RedisBatchReader } from './redis-batch.ts';

export const TTL_MS = 600_000;

/** Opens a reader of batches beside a local cache of this size. Names in Redis begin with `p:`. No change is known. */
export function openRedisBatch(maxBytes = 0) {
  const store = new FakeStore();
  const counted = { hit: 0, absent: 0, miss: 0, invalid: 0 };
  const names = { prefix: 'p' };
  const cache = new RedisHotelCache(store as never, {
    prefix: () => names.prefix,
    ttlMs: TTL_MS,
    onInvalidValue: () => void counted.invalid++,
  });
  const memory = new CacheMemory(maxBytes);
  const window = new Window(memory.window);
  window.lowerFloor(0);
  const local = localCacheIn(memory);
  const may = { read: true };
  const reader = new RedisBatchReader({
    ...{ redis: store as never, cache, local, memory, isCurrent: () => may.read },
    count: (_, result, keys) => {
      counted[result] += keys;
    },
  });
  /** Returns the hotels of these keys, in their order. */
  const read = async (namespace: Namespace, keys: string[]) => {
    const found = new Map<string, Found>();
    await reader.read(namespace, keys, found);
    return keys.map((key) => found.get(key));
  };
  return { store, counted, names, cache, memory, window, local, may, reader, read };
}
