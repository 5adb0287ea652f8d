import { beforeAll, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { FreshnessWatch } from '../support/freshness-watch.ts';
import { InProcessService, type InProcessWorker } from '../support/in-process-service.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { type Service, startService } from '../support/service.ts';
import { withoutTriggers } from '../support/triggers.ts';

await needs('redis');

/** A scan takes five steps of a second. */
const TIMEOUT_MS = 12_000;

let service: Service;
let allWorkers: AllWorkers;
let freshness: FreshnessWatch;

beforeAll(async () => {
  const hotels = Array.from({ length: 300 }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}` }));
  service = await startService({ workers: 2, hotels });
  allWorkers = await AllWorkers.of(service);
  freshness = new FreshnessWatch(service);
});

it('changes that bypassed the triggers are found by reconciliation, corrected everywhere and counted', async () => {
  freshness.allowAge(TIMEOUT_MS);
  for (let i = 0; i < 300; i++) await service.get(`/hotels/channel/C${i}`);
  await allWorkers.until('/hotels/nowhere', status(404));
  const key = await insertKey(service.sql, []);
  await allWorkers.until('/hotels/h1', status(200), 1_000, key);

  await withoutTriggers(service.sql, async (sql) => {
    await sql`update hotels set name = 'unannounced' where id = 'h7'`;
    await sql`delete from hotels where id = 'h8'`;
    await sql`insert into hotels (id, name, version) values ('nowhere', 'here', nextval('hotel_api_versions'))`;
    await sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
  });
  await Promise.all([
    allWorkers.until('/hotels/h7', named('unannounced'), TIMEOUT_MS),
    allWorkers.until('/hotels/h8', status(404), TIMEOUT_MS),
    allWorkers.until('/hotels/nowhere', named('here'), TIMEOUT_MS),
    allWorkers.until('/hotels/h1', status(401), TIMEOUT_MS, key),
  ]);
  // the key may have been corrected by a worker's own read before
  const reconciled = () => service.metric('hotel_api_reconciled_total', { kind: 'hotels' });
  await expect.poll(reconciled).toBe(3);
});

it('reconciliation finds nothing in a correct state, and finds changes that bypassed the triggers', async () => {
  const inProcess = await InProcessService.start();
  const [worker] = inProcess.workers as [InProcessWorker];
  await inProcess.sql`
    insert into hotels (id, name, channel_id) select 'h' || i, 'v1', 'C' || i from generate_series(0, 299) as i`;
  const key = await insertKey(inProcess.sql, []);
  await inProcess.settle();
  for (let i = 0; i < 300; i++) {
    await inProcess.sql`update hotels set room_count = ${i} where id = ${`h${i % 100}`}`;
    if (i % 3 === 0) await inProcess.deliver();
    inProcess.receive();
    await worker.lookUp('channel', `C${(i * 7) % 300}`);
    if (i % 30 === 0) await inProcess.sql`delete from hotels where id = ${`h${i + 1}`}`;
  }
  await worker.apiKeys.load(key);
  await inProcess.settle();
  expect(await inProcess.compare()).toEqual({ entries: [], keys: [] });

  await withoutTriggers(inProcess.sql, (sql) => sql`update hotels set name = 'unannounced' where id = 'h7'`);
  expect(new Set((await inProcess.compare()).entries.map(({ id }) => id))).toEqual(new Set(['h7']));
});

it('a corrupt value is counted and removed, although no request reads it', async () => {
  const [position] = await service.sql`select generation from hotel_api_feed_position`;
  const damaged = `${position!.generation}:h:not requested`;
  const counted = () => service.metric('hotel_api_redis_invalid_values_total');
  const before = await counted();
  await service.redis!.set(damaged, 'damaged');
  await expect.poll(counted, { interval: 50 }).toBe(before + 1);
  await expect.poll(() => service.redis!.exists(damaged)).toBe(0);
});
