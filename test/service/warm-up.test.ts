import { describe, expect, it } from 'vitest';
import { freshDatabase } from '../support/database.ts';
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

/** However slow the machine is, a warm-up ends because it is complete. */
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

  it('does not load from PostgreSQL while its Redis is unavailable', async () => {
    const service = await warmed(10, {
      env: { REDIS_URL: 'redis://127.0.0.1:1/0', REDIS_TIMEOUT_MS: '100' },
    });
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
