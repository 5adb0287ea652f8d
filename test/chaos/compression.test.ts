import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { holdUps } from '../support/hold-ups.ts';
import { checksTimes, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { hotelBody, hotelRow } from './hotels.ts';

const HOTELS = 1_000;
const AT_ONCE = 20;
const ROUNDS = 10;
/** Other processes can delay a timer; a blocked event loop delays one in every attempt. */
const ATTEMPTS = shortOrLong(1, 3);
const DELAY_S = 0.05;

/** Returns how many timers of the worker were later than `DELAY_S` so far. */
const lateTimers = (service: Service) => holdUps(service, DELAY_S, { worker: '1' });

it('a GET overtakes batches of 1000 that are being compressed', async () => {
  const rows = Array.from({ length: HOTELS }, (_, i) => hotelRow(i));
  const service = await startService({ hotels: rows });
  const body = JSON.stringify({ channel_ids: rows.map(({ channel_id }) => channel_id) });
  const answer = `[${rows.map((_, i) => hotelBody(i)).join(',')}]`;
  const send = () => service.post('/hotels/channel/batch', body, { headers: { 'accept-encoding': 'gzip' } });
  const sendAll = () => Promise.all(Array.from({ length: AT_ONCE }, send));
  // fills the cache and compiles the code
  await send();
  await sendAll();

  for (let attempt = 1; ; attempt++) {
    const lateBefore = await lateTimers(service);
    let rejected = 0;
    for (let round = 0; round < ROUNDS; round++) {
      let compressed = 0;
      const batches = Array.from({ length: AT_ONCE }, async () => {
        const response = await send();
        if (response.status === 200) compressed++;
        return response;
      });
      const single = await service.get(`/hotels/${rows[round]!.id}`);
      const compressedBefore = compressed;
      expect(single.status).toBe(200);
      for (const { status, headers, body: bytes } of await Promise.all(batches)) {
        // on a busy machine some requests would wait too long
        if (status === 503 && rejected++ < (ROUNDS * AT_ONCE) / 2) continue;
        expect([status, headers['content-encoding']]).toEqual([200, 'gzip']);
        expect(gunzipSync(bytes).toString() === answer).toBe(true);
      }
      expect(compressedBefore).toBeLessThan(compressed);
    }
    const late = (await lateTimers(service)) - lateBefore;
    if (late === 0 || !checksTimes) return;
    expect(attempt, `${late} event-loop iterations took more than ${DELAY_S} s`).toBeLessThan(ATTEMPTS);
  }
});
