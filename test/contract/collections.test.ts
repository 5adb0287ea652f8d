import { beforeAll, describe, expect, it } from 'vitest';
import { untilApplied } from '../support/log-state.ts';
import { Mirror } from '../support/mirror.ts';
import { comparableHeaders as comparable, idsOf } from '../support/responses.ts';
import { addToCollection, changeKey, insertCollection, insertKey } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';

/** Hotels h000 to h599; every third is in the collection. */
const ALL = Array.from({ length: 600 }, (_, i) => hotelOf(i));
const INSIDE = ALL.filter((_, i) => i % 3 === 0);
/** Ids for the byte order, and ids that PostgreSQL or a path could read differently. */
const ODD_INSIDE = ['Z', 'a', 'é', '\uff01', '😀', 'a/b', '%'].map((id) => ({ id, channel_id: `c-${id}` }));
const ODD_OUTSIDE = ['B', 'b', 'ä', '~'].map((id) => ({ id, channel_id: `c-${id}` }));

function hotelOf(i: number) {
  const id = `h${String(i).padStart(3, '0')}`;
  return { id, channel_id: `c-${id}`, registry_id: 1_000 + i };
}

let service: Service;
/** Ids in the collection, in the order of the list. */
let inside: string[];
/** Keys of the collection with and without the scope, of a collection without hotels, and of a deleted one. */
let full: string;
let narrow: string;
let ofEmpty: string;
let ofDeleted: string;

const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

describe.each([
  ['without a local cache', { L1_MAX_BYTES: '0' }],
  ['with a local cache', {}],
])('a key of a collection, %s,', (_, env) => {
  beforeAll(async () => {
    service = await startService({ env, hotels: [...ALL, ...ODD_INSIDE, ...ODD_OUTSIDE] });
    inside = [...INSIDE, ...ODD_INSIDE].map(({ id }) => id).sort(byBytes);
    const { sql } = service;
    await insertCollection(sql, 'some', [...inside, 'not there', 'nor this']);
    await insertCollection(sql, 'empty');
    await insertCollection(sql, 'deleted', inside);
    await sql`delete from collections where id = 'deleted'`;
    full = await insertKey(sql, ['registry'], 'some');
    narrow = await insertKey(sql, [], 'some');
    ofEmpty = await insertKey(sql, ['registry'], 'empty');
    ofDeleted = await insertKey(sql, ['registry'], 'deleted');
    // the caches of the service hold everything, because other keys have requested it
    for (let offset = 0; offset < ALL.length; offset += 100)
      await service.get(`/hotels?limit=100&offset=${offset}`);
  });

  describe('on the three paths of single hotels', () => {
    const paths = ({
      id,
      channel_id,
      registry_id,
    }: (typeof ODD_INSIDE)[number] & { registry_id?: number }) => [
      `/hotels/${encodeURIComponent(id)}`,
      `/hotels/channel/${encodeURIComponent(channel_id)}`,
      ...(registry_id === undefined ? [] : [`/hotels/registry/${registry_id}`]),
    ];

    it('receives members, with the same bytes as an unrestricted key', async () => {
      for (const path of [...INSIDE.slice(0, 5), ...ODD_INSIDE].flatMap(paths)) {
        const [seen, whole] = [await service.get(path, { key: full }), await service.get(path)];
        expect([path, seen.status, seen.text]).toEqual([path, 200, whole.text]);
        expect(comparable(seen)).toEqual(comparable(whole));
      }
    });

    it('receives lengths by HEAD, tags, and 304 only for members', async () => {
      for (const path of paths(ALL[0]!)) {
        const got = await service.get(path, { key: full });
        expect(comparable(await service.get(path, { key: full, method: 'HEAD' }))).toEqual(comparable(got));
        const headers = { 'if-none-match': got.headers.etag! };
        expect((await service.get(path, { key: full, headers })).status).toBe(304);
      }
      for (const path of paths(ALL[1]!)) {
        const { etag } = (await service.get(path)).headers;
        for (const tag of [etag!, '*']) {
          const response = await service.get(path, { key: full, headers: { 'if-none-match': tag } });
          expect([path, response.status, response.headers.etag]).toEqual([path, 404, undefined]);
        }
        expect((await service.get(path, { key: full, method: 'HEAD' })).status).toBe(404);
      }
    });
  });

  describe('in batches', () => {
    it.each<['channel' | 'registry', (i: number) => unknown]>([
      ['channel', (i) => ALL[i]!.channel_id],
      ['registry', (i) => ALL[i]!.registry_id],
    ])(
      'of %s ids, in any order and with duplicates, receives what the members alone yield',
      async (kind, keyOf) => {
        const send = (numbers: number[], key: string) =>
          service.post(`/hotels/${kind}/batch`, { [`${kind}_ids`]: numbers.map(keyOf) }, { key });
        const all = Array.from({ length: 600 }, (_, i) => i);
        for (const numbers of [[...all, ...all.slice(0, 100)], all.toReversed(), [1, 0, 2, 9], [1, 2], []]) {
          const inside = numbers.filter((i) => i % 3 === 0);
          expect((await send(numbers, full)).text).toBe((await send(inside, 'full')).text);
        }
        if (kind === 'channel') expect((await send([0, 1], narrow)).json()[0].registry_id).toBeNull();
      },
    );
  });

  describe('in the list', () => {
    const list = (query: string) => service.get(`/hotels${query}`, { key: full });

    it('receives the members, page by page, by exact positions', async () => {
      for (const limit of [1, 7, 20, 100]) {
        for (const offset of [0, 1, 19, 100, inside.length - 1, inside.length, inside.length + 5]) {
          const response = await list(`?limit=${limit}&offset=${offset}`);
          expect(idsOf(response)).toEqual(inside.slice(offset, offset + limit));
          const links = String(response.headers.link);
          expect(links.includes('rel="next"')).toBe(offset + limit < inside.length);
          expect(links.includes('rel="prev"')).toBe(offset > 0);
        }
      }
    });

    it('finds members by the registry id filter, and nothing else', async () => {
      expect(idsOf(await list('?registry_id=1000'))).toEqual(['h000']);
      expect(idsOf(await list('?registry_id=1000&offset=1'))).toEqual([]);
      expect(idsOf(await list('?registry_id=1001'))).toEqual([]);
    });
  });

  it.each([
    ['without hotels', () => ofEmpty],
    ['that was deleted', () => ofDeleted],
  ])('of a collection %s sees nothing', async (_name, keyOf) => {
    const key = keyOf();
    expect((await service.get('/hotels/h000', { key })).status).toBe(404);
    expect((await service.get('/hotels/channel/c-h000', { key })).status).toBe(404);
    const page = await service.get('/hotels', { key });
    expect([page.status, page.text, String(page.headers.link).includes('next')]).toEqual([200, '[]', false]);
    const batch = await service.post('/hotels/channel/batch', { channel_ids: ['c-h000'] }, { key });
    expect([batch.status, batch.text]).toEqual([200, '[]']);
  });

  it('that is moved to another collection, or to none, sees the hotels of that', async () => {
    const key = await insertKey(service.sql, [], 'empty');
    const move = (to: string | null) => changeKey(service.sql, key, { collection_id: to });
    const seen = async () => idsOf(await service.get('/hotels?limit=1', { key }));
    expect(await seen()).toEqual([]);
    await move('some');
    await until(async () => (await seen())[0] === inside[0]);
    await move(null);
    await until(
      async () => (await seen())[0] === [...inside, ...ODD_OUTSIDE.map(({ id }) => id)].sort(byBytes)[0],
    );
    await move('empty');
    await until(async () => (await seen()).length === 0);
  });

  it('is served from memory', async () => {
    const get = () => service.get('/hotels/h000', { key: full });
    await expect
      .poll(async () => {
        const before = await service.metric('hotel_api_collection_queries_total');
        expect((await get()).status).toBe(200);
        expect((await get()).status).toBe(200);
        return (await service.metric('hotel_api_collection_queries_total')) - before;
      })
      .toEqual(0);
  });
});

it('a mirror of a collection receives additions and removals, and nothing about other hotels', async () => {
  const { sql } = service;
  const ids = Array.from({ length: 10 }, (_, i) => `m${i}`);
  await sql`insert into hotels (id, name) select id, 'mirrored' from unnest(${ids}::text[]) as id`;
  await insertCollection(sql, 'mirrored', ids.slice(0, 5));
  const key = await insertKey(sql, [], 'mirrored');
  const mirror = new Mirror((path) => service.get(path, { key }), 3);
  const settle = (expected: string[]) =>
    expect
      .poll(async () => {
        await mirror.catchUp();
        return [...mirror.hotels.keys()].sort();
      })
      .toEqual(expected);
  await settle(ids.slice(0, 5));
  await addToCollection(sql, 'mirrored', ['m5', 'nothing']);
  await sql`delete from collection_hotels where collection_id = 'mirrored' and hotel_id = 'm0'`;
  await sql`update hotels set name = 'renamed' where id in ('m0', 'm1', 'm8')`;
  await sql`delete from hotels where id in ('m2', 'm9')`;
  await settle(['m1', 'm3', 'm4', 'm5']);
  await sql`delete from collections where id = 'mirrored'`;
  await settle([]);
  expect(ids.slice(6).filter((id) => mirror.announced.has(id))).toEqual([]);
});

it('each of many mirrors takes at most one query when a hotel changes, and the one that has it is answered', async () => {
  const { sql } = service;
  const collections = Array.from({ length: 60 }, (_, i) => `of-many-${i}`);
  const keys: string[] = [];
  for (const [i, id] of collections.entries()) {
    await insertCollection(sql, id, [i === 7 ? 'h009' : 'h012']);
    keys.push(await insertKey(sql, [], id));
  }
  await untilApplied(service);
  const tokens: string[] = [];
  for (const key of keys) tokens.push((await service.get('/changes', { key })).json().next);
  let withoutRoom = 0;
  const answers = keys.map(async (key, i) => {
    const response = await service.get(`/changes?wait=30&after=${tokens[i]}`, { key });
    const ids = response.json().changes?.map(({ id }: { id: string }) => id);
    // one that finds no room in the queue gets its empty page again
    if (ids?.length === 0) withoutRoom++;
    return ids;
  });
  await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(60);
  const queries = () =>
    service.metric('hotel_api_dependency_duration_seconds_count', { dependency: 'postgres' });
  const before = await queries();
  const asked = async () => (await queries()) - before;
  await sql`update hotels set name = 'of one' where id = 'h009'`;
  expect(await answers[7]).toEqual(['h009']);
  await expect.poll(async () => (await asked()) + withoutRoom).toBeGreaterThanOrEqual(collections.length);
  expect(await asked()).toBeLessThan(2 * collections.length);
  // it ends the waits of the others
  await sql`update api_keys set revoked_at = now() where collection_id like 'of-many-%'`;
  await Promise.all(answers);
});

const until = (isSo: () => Promise<boolean>) => expect.poll(isSo).toEqual(true);
