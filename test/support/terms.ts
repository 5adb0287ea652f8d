import type { Sql } from 'postgres';
import { RedisKeyCache } from '../../src/auth/redis-key-cache.ts';
import { RedisHotelCache } from '../../src/cache/redis-hotel-cache.ts';
import { NOTHING_RECEIVED } from '../../src/change-feed/history.fixture.ts';
import type { RedisStores } from '../../src/change-feed/redis-writer.ts';
import { Term } from '../../src/change-feed/term.ts';
import { MacSecret } from '../../src/lib/mac.ts';
import { Events } from '../../src/observability/events.ts';
import { openLog } from '../../src/observability/log.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { Redis } from '../../src/redis/client.ts';

export type TermStores = RedisStores & { redis: Redis };

export const REDIS_CACHE_OPTIONS = { ttlMs: 600_000, absentTtlMs: 60_000, onInvalidValue: () => {} };
const EVENTS = new Events(openLog('silent', 'test'));

/** Returns stores of hotels and keys over a connection; `secret` signs the keys. */
export const storesOf = (redis: Redis, secret = new MacSecret()) => ({
  hotels: new RedisHotelCache(redis, REDIS_CACHE_OPTIONS),
  keys: new RedisKeyCache(redis, REDIS_CACHE_OPTIONS, secret),
});

/** Connects to Redis as the invalidator does. The caller closes the connection. */
export async function openStores(url: string): Promise<TermStores> {
  const redis = new Redis(url, 500, () => {});
  await redis.connected(1_000);
  return { redis, ...storesOf(redis) };
}

/** Begins a term of an instance that has received nothing. `marker` is the last write marker, null if there is none. */
export function beginTerm(
  sql: Sql,
  stores: TermStores,
  marker: string | null,
  metrics = new Metrics(),
): Promise<Term> {
  return Term.begin(sql, stores, marker, NOTHING_RECEIVED, metrics, EVENTS);
}
