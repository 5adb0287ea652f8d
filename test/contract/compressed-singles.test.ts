import { beforeAll, describe, expect, it } from 'vitest';
import type { RequestOptions } from '../support/client.ts';
import { CODINGS, type Coding, DECODERS } from '../support/decoders.ts';
import { type Service, startService } from '../support/service.ts';

const LONG = 'A house by the lake. '.repeat(100);

let service: Service;

beforeAll(async () => {
  service = await startService({
    hotels: [
      { id: 'a', name: 'first', description: LONG, channel_id: 'CH-a', registry_id: 7 },
      { id: 'gone', description: LONG },
    ],
  });
});

async function read(path: string, coding: Coding, options: RequestOptions = {}) {
  const { status, headers, body } = await service.get(path, {
    ...options,
    headers: { 'accept-encoding': coding },
  });
  const encoding = headers['content-encoding'] as Coding | undefined;
  const hotel = JSON.parse((encoding ? DECODERS[encoding](body) : body).toString());
  return { status, encoding, hotel, tag: headers.etag };
}

describe('a compressed hotel', () => {
  it('is the same at any time and by any of its ids', async () => {
    for (const key of ['full', 'narrow'] as const)
      for (const coding of CODINGS) {
        const plain = (await service.get('/hotels/a', { key })).json();
        for (const path of ['/hotels/a', '/hotels/channel/CH-a', '/hotels/a', '/hotels/a']) {
          const answer = await read(path, coding, { key });
          expect(answer).toMatchObject({ status: 200, encoding: coding, hotel: plain });
        }
        expect(plain.registry_id).toBe(key === 'full' ? 7 : null);
      }
  });

  it('is current within a second of a change, however often it was read', async () => {
    for (let round = 0; round < 3; round++) {
      for (const coding of CODINGS)
        for (let i = 0; i < 3; i++) expect((await read('/hotels/a', coding)).encoding).toBe(coding);
      const before = await read('/hotels/a', 'gzip');
      await service.sql`update hotels set name = ${`name ${round}`} where id = 'a'`;
      for (const coding of CODINGS)
        await expect
          .poll(() => read('/hotels/a', coding))
          .toMatchObject({
            hotel: { name: `name ${round}` },
            tag: expect.not.stringContaining(before.tag!),
          });
    }
  });

  it('is absent within a second of its deletion', async () => {
    for (let i = 0; i < 3; i++) expect((await read('/hotels/gone', 'gzip')).encoding).toBe('gzip');
    await service.sql`delete from hotels where id = 'gone'`;
    const headers = { 'accept-encoding': 'gzip' };
    await expect.poll(async () => (await service.get('/hotels/gone', { headers })).status).toEqual(404);
  });
});

describe('a compressed page of the list', () => {
  it('is the same at any time, for each key and coding, and current within a second of a change', async () => {
    for (let round = 0; round < 2; round++) {
      for (const key of ['full', 'narrow'] as const)
        for (const coding of CODINGS) {
          const plain = (await service.get('/hotels?limit=5', { key })).json();
          for (let i = 0; i < 3; i++) {
            const answer = await read('/hotels?limit=5', coding, { key });
            expect(answer).toMatchObject({ status: 200, encoding: coding, hotel: plain });
          }
          expect(plain[0].registry_id).toBe(key === 'full' ? 7 : null);
        }
      await service.sql`update hotels set name = ${`page ${round}`} where id = 'a'`;
      for (const coding of CODINGS)
        await expect
          .poll(async () => {
            const { hotel } = await read('/hotels?limit=5', coding);
            return hotel[0].name;
          })
          .toBe(`page ${round}`);
    }
  });
});

describe('with COMPRESSION=off', () => {
  it('no response is compressed', async () => {
    const plain = await startService({
      hotels: [{ id: 'a', channel_id: 'CH-a', description: LONG }],
      redis: false,
      env: { COMPRESSION: 'off' },
    });
    const headers = { 'accept-encoding': 'gzip, br, zstd' };
    const responses = [
      await plain.get('/hotels/a', { headers }),
      await plain.get('/hotels', { headers }),
      await plain.get('/openapi.json', { headers }),
      await plain.post('/hotels/channel/batch', { channel_ids: ['CH-a'] }, { headers }),
    ];
    for (const { status, headers: got, text } of responses) {
      expect([status, got['content-encoding']]).toEqual([200, undefined]);
      expect(JSON.parse(text)).toBeTruthy();
    }
  });
});
