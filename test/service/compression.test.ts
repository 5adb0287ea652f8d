import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { batchOf, hotelRow } from '../support/known-hotels.ts';
import { startService } from '../support/service.ts';

const HOTELS = 1_000;
const AT_ONCE = 20;

it('a GET overtakes batches of 1000 that are being compressed', async () => {
  const hotels = Array.from({ length: HOTELS }, (_, i) => hotelRow(i));
  const service = await startService({ hotels });
  const { path, body, answer } = batchOf(hotels.map((_, i) => i));
  const headers = { 'accept-encoding': 'gzip' };
  // fills the cache
  expect((await service.post(path, body!, { headers })).status).toBe(200);
  for (let round = 0; round < 3; round++) {
    let compressed = 0;
    const batches = Array.from({ length: AT_ONCE }, async () => {
      const response = await service.post(path, body!, { headers });
      if (response.status === 200) compressed++;
      return response;
    });
    expect((await service.get(`/hotels/${hotels[round]!.id}`)).status).toBe(200);
    const compressedBefore = compressed;
    for (const { status, headers: received, body: bytes } of await Promise.all(batches)) {
      // those that would wait too long are rejected
      if (status === 503) continue;
      expect([status, received['content-encoding']]).toEqual([200, 'gzip']);
      expect(gunzipSync(bytes).toString() === answer).toBe(true);
    }
    expect(compressedBefore).toBeLessThan(compressed);
  }
});
