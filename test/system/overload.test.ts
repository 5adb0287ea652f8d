import { expect, it } from 'vitest';
import { batchOf, hotelRow } from '../support/known-hotels.ts';
import { needs } from '../support/needs.ts';
import { residentMiB } from '../support/processes.ts';
import { startService } from '../support/service.ts';
import { SteadyLoad } from '../support/steady-load.ts';

await needs('redis');

const HOTELS = 1_000;
/** Clients of one worker: far more than the batches whose wait it accepts. */
const CLIENTS = 100;
const GROWN_MIB = 256;
const LINES_PER_SECOND = 50;

it('an overloaded worker rejects excess requests with 503, and memory, log and administration stay as they were', async () => {
  const hotels = Array.from({ length: HOTELS }, (_, i) => hotelRow(i));
  // each response is made from Redis
  const service = await startService({ hotels, env: { L1_MAX_BYTES: '0' } });
  const batch = batchOf(hotels.map((_, i) => i));
  const some = new SteadyLoad(service, [batch], 2);
  await some.answers(20);
  expect(await some.stop()).toMatchObject({ faults: [], refused: 0 });
  const [pid] = (await service.workerPids()) as [number];
  const beforeMiB = await residentMiB([pid]);

  // clients without processor time would lose connections that idle
  const load = new SteadyLoad(service, [batch], CLIENTS, false);
  await expect.poll(() => load.rejected).toBeGreaterThan(CLIENTS);
  await load.answers(CLIENTS);
  for (const path of ['/readyz', '/livez', '/metrics']) expect((await service.admin(path)).status).toBe(200);
  expect((await residentMiB([pid])) - beforeMiB).toBeLessThan(GROWN_MIB);
  expect(await load.stop()).toMatchObject({ faults: [], refused: 0 });

  expect(await service.metric('hotel_api_requests_rejected_total')).toBeGreaterThanOrEqual(load.rejected);
  const lines = service.logs().filter((line) => line.includes('"status":503'));
  const bySecond = Map.groupBy(lines, (line) => (JSON.parse(line).time as string).slice(0, 19));
  // a second of the limit begins with its first line
  for (const one of bySecond.values()) expect(one.length).toBeLessThanOrEqual(2 * LINES_PER_SECOND);
  expect(lines.length).toBeGreaterThan(0);
  // without the excess nothing is rejected any more
  const again = new SteadyLoad(service, [batch], 1);
  await again.answers(10);
  expect(await again.stop()).toMatchObject({ faults: [], rejected: 0 });
});
