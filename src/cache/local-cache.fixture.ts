import { LocalCache } from './local-cache.ts';
import { CacheMemory } from './memory.ts';

/** Returns a local cache whose entries are current at any age. */
export function localCacheIn(memory: CacheMemory | number): LocalCache {
  return new LocalCache(typeof memory === 'number' ? new CacheMemory(memory) : memory, {
    freshness: { oldestReadMs: () => -Infinity },
    counts: { hit: 0, absent: 0, miss: 0 },
  });
}
