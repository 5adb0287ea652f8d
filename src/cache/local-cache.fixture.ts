import { LocalCache } from './local-cache.ts';
import type { CacheMemory } from './memory.ts';

/** Returns a local cache whose entries are current at any age. */
export function localCacheIn(memory: CacheMemory | number): LocalCache {
  return new LocalCache(memory, {
    freshness: { oldestReadMs: () => -Infinity },
    counts: { hit: 0, absent: 0, miss: 0 },
  });
}
