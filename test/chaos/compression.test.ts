import { readdir, readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { samplesOf } from '../support/exposition.ts';
import { inForm, judgesTimes } from '../support/form.ts';
import { type Service, startService } from '../support/service.ts';
import { hotelBody, hotelRow } from './hotels.ts';

const HOTELS = 1_000;
const AT_ONCE = 20;
const ROUNDS = 10;
/** What others do on the machine can make anything late; what stands still by itself does so each time. */
const ATTEMPTS = inForm(1, 3);
const DELAY_S = 0.05;

/** Processor time of the only worker so far, in ticks: of the thread of its event loop, and of all others. */
async function ticksOf(service: Service): Promise<{ loop: number; others: number }> {
  const [pid] = await service.workerPids();
  const ticks = { loop: 0, others: 0 };
  for (const thread of await readdir(`/proc/${pid}/task`)) {
    const stat = await readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    ticks[thread === String(pid) ? 'loop' : 'others'] += Number(fields[11]) + Number(fields[12]);
  }
  return ticks;
}

/** Timers of the worker that were later than `DELAY_S` so far. */
async function lateTurns(service: Service): Promise<number> {
  const turns = samplesOf(await service.metrics()).filter(
    ({ name, labels: { worker, le } }) =>
      name === 'hotel_api_event_loop_delay_seconds_bucket' &&
      worker === '1' &&
      (le === '+Inf' || le === String(DELAY_S)),
  );
  const [inTime, all] = turns.map(({ value }) => value);
  return all! - inTime!;
}

it('20 batches of 1000 at once are compressed off the event loop', async () => {
  const rows = Array.from({ length: HOTELS }, (_, i) => hotelRow(i));
  const service = await startService({ hotels: rows });
  const body = JSON.stringify({ channel_ids: rows.map(({ channel_id }) => channel_id) });
  const answer = `[${rows.map((_, i) => hotelBody(i)).join(',')}]`;
  const ask = () => service.post('/hotels/channel/batch', body, { headers: { 'accept-encoding': 'gzip' } });
  const askAll = () => Promise.all(Array.from({ length: AT_ONCE }, ask));
  // cached, and compiled
  await ask();
  await askAll();

  for (let attempt = 1; ; attempt++) {
    const [ticksBefore, lateBefore] = [await ticksOf(service), await lateTurns(service)];
    let rejected = 0;
    for (let round = 0; round < ROUNDS; round++) {
      for (const { status, headers, body: bytes } of await askAll()) {
        // on a busy machine some would wait for too long
        if (status === 503 && rejected++ < (ROUNDS * AT_ONCE) / 2) continue;
        expect([status, headers['content-encoding']]).toEqual([200, 'gzip']);
        expect(gunzipSync(bytes).toString() === answer).toBe(true);
      }
    }
    const ticks = await ticksOf(service);
    const late = (await lateTurns(service)) - lateBefore;
    // gzip costs ten times what the answer itself does
    expect(ticks.loop - ticksBefore.loop).toBeLessThan(ticks.others - ticksBefore.others);
    if (late === 0 || !judgesTimes) return;
    expect(attempt, `${late} turns took more than ${DELAY_S} s`).toBeLessThan(ATTEMPTS);
  }
});
