import { expect, it } from 'vitest';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { batchOf, hotelRow, requestsOf } from '../support/known-hotels.ts';
import { needs } from '../support/needs.ts';
import { startNginx } from '../support/nginx.ts';
import { insertHotels } from '../support/rows.ts';
import { startService } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';

await needs('redis', 'nginx');

const HOTELS = 1_000;
const rows = Array.from({ length: HOTELS }, (_, i) => hotelRow(i));
/** Single hotels, batches of 100, and one of 1000, whose response of 1 MB takes long to send. */
const REQUESTS = [...requestsOf(100), batchOf(rows.map((_, i) => i))];

it('three instances behind nginx are restarted one after the other without a failed request', async () => {
  const shared = {
    database: await freshDatabase(),
    redisDatabase: await freshRedis(),
    env: { DRAIN_WAIT_MS: '500' },
  };
  await insertHotels(shared.database.sql, rows);
  const instances = await Promise.all([1, 2, 3].map(() => startService(shared)));
  const port = await startNginx(instances.map((each) => each.port));
  const load = new SteadyLoad({ port, fullKey: instances[0]!.fullKey }, REQUESTS);
  await load.answers(REQUESTS.length);
  for (const [i, instance] of instances.entries()) {
    process.kill(instance.pid, 'SIGTERM');
    expect(await instance.exited).toEqual({ code: 0, signal: null, forced: false });
    const fresh = await startService({ ...shared, ports: instance });
    instances[i] = fresh;
    // nginx tries an instance again some time after a failure
    const answered = () => fresh.metric('hotel_api_request_duration_seconds_count');
    await expect.poll(answered).toBeGreaterThan(0);
  }
  expect(await load.stop()).toMatchObject(ALL_ANSWERED);
});
