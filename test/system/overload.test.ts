import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:http';
import { expect, it } from 'vitest';
import { batchOf, hotelBody, hotelRow } from '../support/known-hotels.ts';
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

/** A hotel may have 64 KiB of JSON. */
const LARGE_BYTES = 60_000;
const ATTACKERS = 8;
const LARGE_GROWN_MIB = 700;

it('batches of the largest hotels, compressed for one key, fail no request of another key and have bounded memory', async () => {
  const small = Array.from({ length: 100 }, (_, i) => hotelRow(i));
  const large = Array.from({ length: HOTELS }, (_, i) => ({
    id: `large-${i}`,
    description: randomBytes(LARGE_BYTES / 2).toString('hex'),
  }));
  const service = await startService({ hotels: [...small, ...large] });
  const requests = [{ path: '/hotels/chaos-1', answer: hotelBody(1) }, batchOf(small.map((_, i) => i))];
  const others = new SteadyLoad(service, requests, 2);
  await others.answers(20);
  const pids = await service.workerPids();
  const beforeMiB = await residentMiB(pids);

  const body = JSON.stringify({ ids: large.map(({ id }) => id) });
  const headers = { 'x-api-key': service.narrowKey, 'accept-encoding': 'br' };
  // a worker disconnects clients when it buffers too many unsent bytes
  const outcomes: (number | 'disconnected')[] = [];
  const attack = async () => {
    for (let i = 0; i < 2; i++) {
      const sending = request(`${service.url}/hotels/batch`, { method: 'POST', headers });
      sending.end(body);
      const [response] = await once(sending, 'response');
      const end = once(response.resume(), 'end').then(() => response.statusCode);
      outcomes.push(await end.catch(() => 'disconnected'));
    }
  };
  await Promise.all(Array.from({ length: ATTACKERS }, attack));
  expect(outcomes).toContain(200);
  await others.answers(20);
  expect(await others.stop()).toMatchObject({ faults: [], refused: 0, rejected: 0 });
  expect((await residentMiB(pids, 'VmHWM')) - beforeMiB).toBeLessThan(LARGE_GROWN_MIB);
});
