import { describe, expect, it } from 'vitest';
import { hotel, NOW_MS } from '../../src/cache/arena/arena.fixture.ts';
import { CacheArena } from '../../src/cache/arena/arena.ts';
import { HotIds } from '../../src/cache/hot-ids.ts';
import { RedisHotelCache } from '../../src/cache/redis-hotel-cache.ts';
import { Redis } from '../../src/redis/client.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { type FreshDatabase, type FreshRedis, freshDatabase, freshRedis } from '../support/database.ts';
import { redisPrefix } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { insertHotels } from '../support/rows.ts';
import {
  type Service,
  type ServiceOptions,
  startBeside,
  startService,
  stopAfterTest,
} from '../support/service.ts';

await needs('redis-server');

/** On a busy machine too, a warm-up ends because it is complete. */
const WARM = { WARMUP_TIMEOUT_MS: '60000', DATABASE_TIMEOUT_MS: '60000', REDIS_TIMEOUT_MS: '10000' };

const idsOf = (count: number) =>
  Array.from({ length: count }, (_, i) => `warm-${String(i).padStart(5, '0')}`);

/** Inserts hotels that no cache knows, and starts a warming instance. */
async function warmed(count: number, options: ServiceOptions = {}): Promise<Service> {
  const database = options.database ?? (await freshDatabase());
  await insertHotels(
    database.sql,
    idsOf(count).map((id) => ({ id, channel_id: `c-${id}` })),
  );
  return stopAfterTest(await startService({ ...options, database, env: { ...WARM, ...options.env } }));
}

/** Returns the databases of an instance, with a list of ids in use. */
async function withList(list: string): Promise<{ database: FreshDatabase; redisDatabase: FreshRedis }> {
  const [database, redisDatabase] = [await freshDatabase(), await freshRedis()];
  // the names in Redis begin with the history of the log
  await database.sql`select hotel_api_sequence()`;
  await redisDatabase.client.set(`${await redisPrefix(database.sql)}:hot:3`, list);
  return { database, redisDatabase };
}

const lookups = (service: Service, tier: string, result: string) =>
  service.metric('hotel_api_cache_lookups_total', { tier, result });
const cached = (service: Service) => service.metric('hotel_api_local_cache_entries', { kind: 'hotel' });

describe('an instance that starts', () => {
  it('fills the local caches of all workers from Redis, without a query for a hotel', async () => {
    const first = await warmed(1_200);
    await expect.poll(() => first.redis!.dbsize()).toBeGreaterThanOrEqual(2 * 1_200);
    const second = stopAfterTest(await startBeside(first, { workers: 2, env: WARM }));
    await expect.poll(() => cached(second)).toBe(2 * 1_200);
    expect(await second.metric('hotel_api_warmup_hotels')).toBe(2 * 1_200);
    expect(await second.metric('hotel_api_warmup_seconds')).toBeGreaterThan(0);
    expect(await lookups(second, 'postgres', 'hit')).toBe(0);
    const channels = idsOf(1_000).map((id) => `c-${id}`);
    expect((await second.post('/hotels/channel/batch', { channel_ids: channels })).status).toBe(200);
    expect(await lookups(second, 'local', 'miss')).toBe(0);
  });

  it('serves what changed during and after it', async () => {
    const database = await freshDatabase();
    let isOver = false;
    // one after the other: of two at once, the earlier may be committed last
    const change = async () => {
      for (let n = 0; !isOver; n++)
        await database.sql`update hotels set name = ${`n${n}`} where id = 'warm-00001'`;
    };
    const changing = change();
    try {
      const service = await warmed(2_000, { database });
      isOver = true;
      await changing;
      const [row] = await database.sql`select name from hotels where id = 'warm-00001'`;
      await expect.poll(async () => (await service.get('/hotels/warm-00001')).json().name).toBe(row!.name);
      expect(await cached(service)).toBeGreaterThanOrEqual(1_999);
    } finally {
      isOver = true;
    }
  });

  it('loads the hotels in use first', async () => {
    const hot = idsOf(3_000).slice(-200);
    const { database, redisDatabase } = await withList(JSON.stringify(hot));
    // its cache has room for a third of them
    const service = await warmed(3_000, { database, redisDatabase, env: { L1_MAX_BYTES: '1048576' } });
    expect(await cached(service)).toBeLessThan(2_000);
    const channels = hot.map((id) => `c-${id}`);
    expect((await service.post('/hotels/channel/batch', { channel_ids: channels })).json()).toHaveLength(200);
    expect(await lookups(service, 'local', 'miss')).toBe(0);
  });

  it.each([
    ['is no JSON', 'x'.repeat(1_000)],
    ['has values that are no ids', '[1,null,"",{"a":1},"\\u0000"]'],
  ])('is not disturbed by a list in Redis that %s', async (_, list) => {
    const { database, redisDatabase } = await withList(list);
    const service = await warmed(10, { database, redisDatabase });
    await expect.poll(() => cached(service)).toBe(10);
  });

  it('does not load from PostgreSQL while its Redis is unavailable', async () => {
    const service = await warmed(10, { env: { REDIS_URL: 'redis://127.0.0.1:1/0' } });
    expect(await cached(service)).toBe(0);
    expect(await service.metric('hotel_api_warmup_seconds')).toBe(0);
  });

  it('ends on SIGTERM while it warms', async () => {
    const database = await freshDatabase();
    await insertHotels(database.sql, [{ id: 'a' }]);
    let stopped: Awaited<ReturnType<Service['stop']>> | undefined;
    let service: Service | undefined;
    await database.sql.begin(async (sql) => {
      await sql`lock table hotels in access exclusive mode`;
      const env = { WARMUP_TIMEOUT_MS: '60000', DATABASE_TIMEOUT_MS: '60000' };
      service = await startService({ database, env, awaitReady: false });
      const waiting = () =>
        database.sql`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%(select id from hotels%'`;
      await expect.poll(waiting).not.toHaveLength(0);
      stopped = await service.stop();
    });
    expect(stopped).toEqual({ code: 0, signal: null });
    expect(service!.logs().join('\n')).not.toContain('"listening"');
  });
});

describe('the lists of ids in use', () => {
  it('hold what was hit, most hits first, unless a worker has seen too few requests', async () => {
    const { url } = await freshRedis();
    const redis = new Redis(url, 2_000, () => {});
    closeAtEnd('Redis client', async () => redis.close());
    await redis.connected(10_000);
    const cache = new RedisHotelCache(redis, { ttlMs: 60_000, absentTtlMs: 1_000, onInvalidValue: () => {} });
    cache.usePrefix('1');
    const arena = new CacheArena(1024 ** 2);
    const hotIds = new HotIds(cache, arena);
    for (let i = 0; i < 300; i++) arena.put(hotel({ id: `h${i}` }).bytes, NOW_MS, NOW_MS + 60_000);
    const hit = (count: number) => {
      for (let i = 0; i < count; i++) arena.find('id', `h${i}`, NOW_MS);
    };
    hit(50);
    await hotIds.save();
    expect(await hotIds.read()).toEqual(new Set());
    hit(200);
    await hotIds.save();
    const ids = [...(await hotIds.read())];
    expect(new Set(ids)).toEqual(new Set(Array.from({ length: 200 }, (_, i) => `h${i}`)));
    expect(new Set(ids.slice(0, 50))).toEqual(new Set(Array.from({ length: 50 }, (_, i) => `h${i}`)));
  });
});
