import { describe, expect, it } from 'vitest';
import { freshDatabase } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import { insertHotels } from '../support/rows.ts';
import { type Service, startBeside, startService, stopAfterTest } from '../support/service.ts';

await needs('redis-server');

/** However slow the machine is, a warm-up ends because it is complete. */
const WARM = { WARMUP_TIMEOUT_MS: '60000', DATABASE_TIMEOUT_MS: '60000', REDIS_TIMEOUT_MS: '10000' };
const HOTELS = Array.from({ length: 1_200 }, (_, i) => ({ id: `warm-${i}`, channel_id: `c-${i}` }));

const cached = (service: Service) => service.metric('hotel_api_local_cache_entries', { kind: 'hotel' });

describe('an instance that starts', () => {
  it('fills the local caches of all workers from Redis, without a query for a hotel', async () => {
    const first = stopAfterTest(await startService({ hotels: HOTELS, env: WARM }));
    await expect.poll(() => first.redis!.dbsize()).toBeGreaterThanOrEqual(2 * HOTELS.length);
    const second = stopAfterTest(await startBeside(first, { workers: 2, env: WARM }));
    const lookups = (tier: string, result: string) =>
      second.metric('hotel_api_cache_lookups_total', { tier, result });
    await expect.poll(() => cached(second)).toBe(2 * HOTELS.length);
    expect(await lookups('postgres', 'hit')).toBe(0);
    const channel_ids = HOTELS.slice(0, 1_000).map(({ channel_id }) => channel_id);
    expect((await second.post('/hotels/channel/batch', { channel_ids })).status).toBe(200);
    expect(await lookups('local', 'miss')).toBe(0);
    const env = { ...WARM, REDIS_URL: 'redis://127.0.0.1:1/0', REDIS_TIMEOUT_MS: '100' };
    // it does not load from PostgreSQL while its Redis is unavailable
    const without = stopAfterTest(await startBeside(first, { env }));
    expect(await cached(without)).toBe(0);
    expect(without.logs().join('\n')).not.toContain('warm-up ended');
  });

  it('ends on SIGTERM while it warms', async () => {
    const database = await freshDatabase();
    await insertHotels(database.sql, [{ id: 'a' }]);
    await database.sql.begin(async (sql) => {
      await sql`lock table hotels in access exclusive mode`;
      const service = await startService({ database, env: WARM, awaitReady: false });
      const waiting = () =>
        database.sql`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%(select id from hotels%'`;
      await expect.poll(waiting).not.toHaveLength(0);
      expect(await service.stop()).toEqual({ code: 0, signal: null });
      expect(service.logs().join('\n')).not.toContain('"listening"');
    });
  });
});
