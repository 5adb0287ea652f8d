import { expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { Program } from '../cli/program.ts';
import type { HttpResponse } from '../support/client.ts';
import { linesOf } from '../support/log-lines.ts';
import { type Service, startBeside, startService, stopAfterTest } from '../support/service.ts';

const IDS = Array.from({ length: 150 }, (_, i) => `h${String(i).padStart(3, '0')}`);
const HOTELS = IDS.map((id, i) => ({ id, channel_id: `CH-${i}`, registry_id: 7_000 + i }));

const idOf = (key: string) => `test-${hashOf(key).slice(0, 12)}`;

/** Sends every kind of request twice, and returns what was served. */
async function use(service: Service): Promise<{ requests: number; hotels: number; bytes: number }> {
  const used = { requests: 0, hotels: 0, bytes: 0 };
  const take = ({ status, body }: HttpResponse, hotels: number) => {
    expect(status).toBeLessThan(500);
    used.requests++;
    used.bytes += body.length;
    used.hotels += hotels;
  };
  for (let round = 0; round < 2; round++) {
    take(await service.post('/hotels/channel/batch', { channel_ids: IDS.map((_, i) => `CH-${i}`) }), 150);
    take(await service.post('/hotels/batch', { ids: [...IDS, 'unknown', IDS[3]] }), 150);
    take(await service.post('/hotels/registry/batch', { registry_ids: [7_001, 7_002, 9_999] }), 2);
    const single = await service.get('/hotels/h001');
    take(single, 1);
    take(await service.get('/hotels/h001', { headers: { 'if-none-match': single.headers.etag } }), 0);
    take(await service.get('/hotels/h001', { method: 'HEAD' }), 0);
    take(await service.get('/hotels/channel/CH-5'), 1);
    take(await service.get('/hotels?limit=7&offset=3'), 7);
    take(await service.get('/hotels/unknown'), 0);
    take(await service.get('/changes?limit=20'), 20);
  }
  return used;
}

it('the use of keys is written when an instance stops, exactly what was served, if its login may write it', async () => {
  // one serves from its local cache, one from Redis
  const service = stopAfterTest(await startService({ hotels: HOTELS }));
  const ofRedis = stopAfterTest(await startBeside(service, { env: { L1_MAX_BYTES: '0' } }));
  const without = stopAfterTest(await startBeside(service, { redis: false }));
  const program = await Program.set(service.database);
  const shown = async (...args: string[]) =>
    JSON.parse((await program.run(['keys', ...args, '--json'])).stdout);
  const [full, foreign] = [idOf(service.fullKey), idOf(ofRedis.fullKey)];
  const narrow = idOf(service.narrowKey);
  const used = await use(service);
  const usedOfRedis = await use(ofRedis);
  expect((await service.get('/hotels/h001', { key: 'none' })).status).toBe(401);
  expect((await service.get('/hotels/registry/7001', { key: 'narrow' })).status).toBe(403);
  await Promise.all([service.stop(), ofRedis.stop()]);
  const usage = await shown('usage');
  expect(usage).toHaveLength(3);
  const named = { day: expect.stringMatching(/^\d{4}-\d\d-\d\d$/), name: 'test' };
  expect(usage).toContainEqual({ ...named, id: full, ...used });
  expect(usage).toContainEqual({ ...named, id: foreign, ...usedOfRedis });
  expect(await shown('usage', narrow)).toMatchObject([{ id: narrow, requests: 1, hotels: 0 }]);
  const keys: { id: string; last_used_at: string | null }[] = await shown('list');
  const usedIds = keys.filter(({ last_used_at }) => last_used_at !== null).map(({ id }) => id);
  expect(usedIds.sort()).toEqual([full, narrow, foreign].sort());

  // without the right to write it, requests are served and one line says so
  await service.sql`revoke execute on function hotel_api_count_usage(json) from hotel_api_serve`;
  expect((await without.get('/hotels/h001')).status).toBe(200);
  await without.stop();
  expect(linesOf(without.logs(), 'use of keys not recorded')).toMatchObject([
    { level: 'warn', reason: expect.stringContaining('permission denied') },
  ]);
  expect(await service.sql`select from hotel_api_usage`).toHaveLength(3);
});
