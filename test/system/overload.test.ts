import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { batchOf, hotelBody, hotelRow } from '../support/known-hotels.ts';
import { needs } from '../support/needs.ts';
import { residentMiB } from '../support/processes.ts';
import { startService } from '../support/service.ts';
import { expectAnswered, SteadyLoad } from '../support/steady-load.ts';

await needs('redis');

const HOTELS = 1_000;
/** A hotel may have 64 KiB of JSON. */
const LARGE_BYTES = 60_000;
const ATTACKERS = 8;
const GROWN_MIB = 700;

it('batches of the largest hotels, compressed for one key, leave others their answers and have bounded memory', async () => {
  const small = Array.from({ length: 100 }, (_, i) => hotelRow(i));
  const large = Array.from({ length: HOTELS }, (_, i) => ({
    id: `large-${i}`,
    description: randomBytes(LARGE_BYTES / 2).toString('hex'),
  }));
  const service = await startService({ hotels: [...small, ...large] });
  const requests = [{ path: '/hotels/chaos-1', answer: hotelBody(1) }, batchOf(small.map((_, i) => i))];
  const others = new SteadyLoad(service, requests, 2);
  await others.answers(20);
  const { answered } = others;
  const pids = await service.workerPids();
  const beforeMiB = await residentMiB(pids);

  const body = JSON.stringify({ ids: large.map(({ id }) => id) });
  const options = { key: 'narrow', headers: { 'accept-encoding': 'br' } };
  // a worker disconnects clients when it buffers too many unsent bytes
  const outcomes: (number | 'disconnected')[] = [];
  const attack = async () => {
    for (let i = 0; i < 2; i++) {
      const sent = service.post('/hotels/batch', body, options).then(({ status }) => status);
      outcomes.push(await sent.catch(() => 'disconnected'));
    }
  };
  await Promise.all(Array.from({ length: ATTACKERS }, attack));
  expect(outcomes).toContain(200);
  expect(others.rejected).toBeLessThan(others.answered - answered);
  await expectAnswered(others);
  expect((await residentMiB(pids, 'VmHWM')) - beforeMiB).toBeLessThan(GROWN_MIB);
});
