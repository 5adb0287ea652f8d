import { beforeAll, describe, expect, it } from 'vitest';
import { Mirror } from '../support/mirror.ts';
import { comparableHeaders as comparable, idsOf } from '../support/responses.ts';
import { addToCollection, changeKey, insertCollection, insertKey } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';

/** Hotels h000 to h599; every third is in the collection. */
const ALL = Array.from({ length: 600 }, (_, i) => {
  const id = `h${String(i).padStart(3, '0')}`;
  return { id, channel_id: `c-${id}`, registry_id: 1_000 + i };
});
const INSIDE = ALL.filter((_, i) => i % 3 === 0);
/** Ids for the byte order, and ids that PostgreSQL or a path could read differently. */
const ODD_INSIDE = ['Z', 'a', 'é', '\uff01', '😀', 'a/b', '%'].map((id) => ({ id, channel_id: `c-${id}` }));
const ODD_OUTSIDE = ['B', 'b', 'ä', '~'].map((id) => ({ id, channel_id: `c-${id}` }));
/** Ids in the collection, in the order of the list. */
const inside = [...INSIDE, ...ODD_INSIDE]
  .map(({ id }) => id)
  .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));

let service: Service;
/** key of the collection, with the scope */
let key: string;

describe.each([
  ['without a local cache', { L1_MAX_BYTES: '0' }],
  ['with a local cache', {}],
])('a key of a collection, %s,', (_, env) => {
  beforeAll(async () => {
    await service?.stop();
    service = await startService({ env, hotels: [...ALL, ...ODD_INSIDE, ...ODD_OUTSIDE] });
    await insertCollection(service.sql, 'some', [...inside, 'not there', 'nor this']);
    await insertCollection(service.sql, 'empty');
    key = await insertKey(service.sql, ['registry'], 'some');
    // the caches of the service hold everything, because other keys have requested it
    for (let offset = 0; offset < ALL.length; offset += 100)
      await service.get(`/hotels?limit=100&offset=${offset}`);
  });

  const pathsOf = (hotel: { id: string; channel_id: string; registry_id?: number }) => [
    `/hotels/${encodeURIComponent(hotel.id)}`,
    `/hotels/channel/${encodeURIComponent(hotel.channel_id)}`,
    ...(hotel.registry_id === undefined ? [] : [`/hotels/registry/${hotel.registry_id}`]),
  ];

  it('receives single members as an unrestricted key does, by GET and HEAD, and 304', async () => {
    for (const path of [...INSIDE.slice(0, 5), ...ODD_INSIDE].flatMap(pathsOf)) {
      const [seen, whole] = [await service.get(path, { key }), await service.get(path)];
      expect([path, seen.status, seen.text]).toEqual([path, 200, whole.text]);
      expect(comparable(seen)).toEqual(comparable(whole));
      expect(comparable(await service.get(path, { key, method: 'HEAD' }))).toEqual(comparable(seen));
      const headers = { 'if-none-match': seen.headers.etag! };
      expect((await service.get(path, { key, headers })).status).toBe(304);
    }
  });

  it('receives 404 for other hotels, by GET and HEAD, whatever the tag', async () => {
    for (const path of [ALL[1]!, ...ODD_OUTSIDE].flatMap(pathsOf)) {
      const { etag } = (await service.get(path)).headers;
      for (const method of ['GET', 'HEAD'])
        for (const tag of [etag!, '*', '"none"']) {
          const response = await service.get(path, { key, method, headers: { 'if-none-match': tag } });
          expect([path, response.status, response.headers.etag]).toEqual([path, 404, undefined]);
        }
    }
  });

  it('receives from batches, in any order and with duplicates, what the members alone yield', async () => {
    const all = ALL.map((_, i) => i);
    for (const kind of ['', 'channel_', 'registry_'] as const) {
      const idOf = (i: number) => ALL[i]![kind === '' ? 'id' : (`${kind}id` as const)];
      const send = (numbers: number[], key?: string) =>
        service.post(
          `/hotels/${kind.replace('_', '/')}batch`,
          { [`${kind}ids`]: numbers.map(idOf) },
          { key },
        );
      for (const numbers of [[...all, ...all.slice(0, 100)], all.toReversed(), [1, 0, 2, 9], [1, 2], []]) {
        const members = numbers.filter((i) => i % 3 === 0);
        expect((await send(numbers, key)).text).toBe((await send(members)).text);
      }
    }
  });

  it('receives the members from the list, page by page, by exact positions', async () => {
    const list = (query: string) => service.get(`/hotels${query}`, { key });
    for (const limit of [1, 7, 20, 100]) {
      for (const offset of [0, 1, 19, 100, inside.length - 1, inside.length, inside.length + 5]) {
        const response = await list(`?limit=${limit}&offset=${offset}`);
        expect(idsOf(response)).toEqual(inside.slice(offset, offset + limit));
        const links = String(response.headers.link);
        expect(links.includes('rel="next"')).toBe(offset + limit < inside.length);
        expect(links.includes('rel="prev"')).toBe(offset > 0);
      }
    }
    expect(idsOf(await list('?registry_id=1000'))).toEqual(['h000']);
    expect(idsOf(await list('?registry_id=1000&offset=1'))).toEqual([]);
    expect(idsOf(await list('?registry_id=1001'))).toEqual([]);
  });

  it('sees nothing if the collection has no hotels or does not exist', async () => {
    for (const collection of ['empty', 'deleted']) {
      const key = await insertKey(service.sql, [], collection);
      for (const path of pathsOf(ALL[0]!).slice(0, 2))
        expect((await service.get(path, { key })).status).toBe(404);
      const page = await service.get('/hotels', { key });
      expect([page.status, page.text, /next/.test(String(page.headers.link))]).toEqual([200, '[]', false]);
      expect((await service.post('/hotels/batch', { ids: ['h000'] }, { key })).text).toBe('[]');
    }
  });

  it('that is moved to another collection, or to none, sees the hotels of that', async () => {
    const key = await insertKey(service.sql, [], 'empty');
    const seen = async () => idsOf(await service.get('/hotels?limit=2', { key }));
    expect(await seen()).toEqual([]);
    for (const [collection_id, first] of [
      ['some', ['%', 'Z']],
      [null, ['%', 'B']],
      ['empty', []],
    ] as const) {
      await changeKey(service.sql, key, { collection_id });
      await expect.poll(seen).toEqual(first);
    }
  });
});

it('a mirror of a collection receives additions and removals, and nothing about other hotels', async () => {
  const { sql } = service;
  const ids = Array.from({ length: 10 }, (_, i) => `m${i}`);
  await sql`insert into hotels (id, name) select id, 'mirrored' from unnest(${ids}::text[]) as id`;
  await insertCollection(sql, 'mirrored', ids.slice(0, 5));
  const key = await insertKey(sql, [], 'mirrored');
  const mirror = new Mirror((path) => service.get(path, { key }), 3);
  const copied = async () => {
    await mirror.catchUp();
    return [...mirror.hotels.keys()].sort();
  };
  await expect.poll(copied).toEqual(ids.slice(0, 5));
  await addToCollection(sql, 'mirrored', ['m5', 'nothing']);
  await sql`delete from collection_hotels where collection_id = 'mirrored' and hotel_id = 'm0'`;
  await sql`update hotels set name = 'renamed' where id in ('m0', 'm1', 'm8')`;
  await sql`delete from hotels where id in ('m2', 'm9')`;
  await expect.poll(copied).toEqual(['m1', 'm3', 'm4', 'm5']);
  await sql`delete from collections where id = 'mirrored'`;
  await expect.poll(copied).toEqual([]);
  expect(ids.slice(6).filter((id) => mirror.announced.has(id))).toEqual([]);
});
