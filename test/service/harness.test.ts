import { Redis } from 'ioredis';
import postgres from 'postgres';
import { describe, expect, test } from 'vitest';
import { closeAll } from '../support/cleanup.ts';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { insertHotels } from '../support/hotel.ts';
import { needs } from '../support/needs.ts';
import { startService } from '../support/service.ts';

await needs('redis');

describe('the databases of a test', () => {
  test('are migrated, and the login of the service can read but not write', async () => {
    const { sql, url } = await freshDatabase();
    await insertHotels(sql, [
      { registry_id: 9_007_199_254_740_991n, certified_from: '2026-01-31' },
      { id: 'b' },
    ]);
    const service = postgres(url, { max: 1 });
    const rows =
      await service`select id, registry_id::text, certified_from::text, images from hotels order by id`;
    await expect(service`delete from hotels`).rejects.toThrow('permission denied');
    await service.end();
    expect(rows).toEqual([
      { id: 'b', registry_id: null, certified_from: null, images: [] },
      { id: 'hotel-1', registry_id: '9007199254740991', certified_from: '2026-01-31', images: [] },
    ]);
  });

  test('share nothing', async () => {
    const [one, other] = await Promise.all([freshDatabase(), freshDatabase()]);
    await insertHotels(one.sql, [{}]);
    expect(await other.sql`select from hotels`).toHaveLength(0);
    const [redis, otherRedis] = await Promise.all([freshRedis(), freshRedis()]);
    await redis.client.set('a', '1');
    expect(await otherRedis.client.dbsize()).toBe(0);
  });
});

describe('a test file fails', () => {
  test('that leaves a connection to PostgreSQL behind', async () => {
    const { ownerUrl } = await freshDatabase();
    const leak = postgres(ownerUrl, { max: 1, connection: { application_name: 'a leak' } });
    await leak`select 1`;
    await expect(closeAll()).rejects.toThrow(/a connection to PostgreSQL: a leak, last query: select 1/);
    await leak.end({ timeout: 0 });
  });

  test('that leaves a connection to Redis behind', async () => {
    const { url } = await freshRedis();
    const leak = new Redis(url);
    await leak.ping();
    await expect(closeAll()).rejects.toThrow(/a connection to Redis/);
    leak.disconnect();
  });
});

describe('a service', () => {
  test('is the real program, and receives requests like those of a client', async () => {
    const service = await startService({
      workers: 2,
      hotels: [{ id: 'a', channel_id: 'C', registry_id: 7 }],
    });
    expect(await service.workerPids()).toHaveLength(2);
    expect((await service.get('/hotels/a')).json()).toMatchObject({
      id: 'a',
      channel_id: 'C',
      registry_id: 7,
    });
    expect((await service.get('/hotels/a', { key: 'narrow' })).json().registry_id).toBeNull();
    expect((await service.get('/hotels/a', { key: 'none' })).status).toBe(401);
    expect((await service.post('/hotels/channel/batch', { channel_ids: ['C', 'D'] })).json()).toHaveLength(1);
    const head = await service.get('/hotels/a', { method: 'HEAD' });
    expect([head.status, head.body.length]).toEqual([200, 0]);
    const raw = await service.raw('GET /hotels/a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
    expect(raw.toString()).toMatch(/^HTTP\/1\.1 401 /);
    expect(await service.metrics()).toContain('hotel_api_');
    expect(await service.stop()).toEqual({ code: 0, signal: null });
    expect(service.logs().join('\n')).toContain('"stopped"');
  });

  test('that cannot start fails the test with its output', async () => {
    await expect(startService({ redis: false, env: { WORKERS: 'many' } })).rejects.toThrow(
      /ended with code \d.*WORKERS must be/s,
    );
  });
});
