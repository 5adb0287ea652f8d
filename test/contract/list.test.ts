import { beforeAll, describe, expect, it } from 'vitest';
import type { HttpResponse } from '../support/client.ts';
import { errorsIn } from '../support/log-lines.ts';
import { expectError, idsOf } from '../support/responses.ts';
import { type Service, startService } from '../support/service.ts';

/** In UTF-16 the emoji would precede U+FF01; in most languages é would precede Z. */
const ODD_IDS = [...'aBéZAb0', '10', ...'9_~ ä', 'a b', 'a-b', 'ab', 'aB', ...'\u0001\uff01😀/'];
const LIMIT = /limit.*\b1\b.*\b100\b/;
const OFFSET = /offset.*\b0\b/;
const NOT_INTEGER = 'registry_id must be an integer';

const hotels = [
  ...ODD_IDS.map((id) => ({ id })),
  ...Array.from({ length: 110 }, (_, i) => ({ id: `hotel-${i}`, registry_id: 500_000 + i })),
  { id: 'minus', registry_id: -5 },
];
const ids = hotels.map(({ id }) => id).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
const service = await startService({ hotels });

const list = async (query: string) => idsOf(await service.get(`/hotels${query}`));
const expectRejected = async (query: string, sentence: string | RegExp) =>
  expectError(await service.get(`/hotels${query}`), 400, sentence);

/** Returns the targets of the links of a response by relation, as paths that can be requested. */
function linksOf(response: HttpResponse): Record<string, string> {
  const links: Record<string, string> = {};
  for (const [, target, parameters] of String(response.headers.link ?? '').matchAll(/<([^>]*)>([^,]*)/g)) {
    const { pathname, search } = new URL(target!, `${service.url}/hotels`);
    for (const relation of /rel="?([a-z ]+)"?/.exec(parameters!)![1]!.split(' '))
      links[relation] = pathname + search;
  }
  return links;
}

describe('the list', () => {
  it('contains the first 20 hotels by default', async () => {
    for (const query of ['', '?', '?limit=20&offset=0']) expect(await list(query)).toEqual(ids.slice(0, 20));
  });

  it.each([
    [100, 0],
    [1, 0],
    [100, 31],
    [7, 130],
    [50, 100],
    [3, 129],
  ])(
    'contains limit %s hotels after offset %s in the order of bytes, or as many as exist',
    async (...page) => {
      const [limit, offset] = page;
      for (let round = 0; round < 2; round++)
        expect(await list(`?limit=${limit}&offset=${offset}`)).toEqual(ids.slice(offset, offset + limit));
    },
  );

  it('is empty beyond its end', async () => {
    for (const beyond of [ids.length, 1_000_000, '9007199254740993', '9223372036854775808', '9'.repeat(30)]) {
      const response = await service.get(`/hotels?offset=${beyond}`);
      expect([response.status, response.text]).toEqual([200, '[]']);
      expect(linksOf(response)).not.toHaveProperty('next');
    }
  });
});

it('the list shows inserted, changed, renamed and deleted hotels at the right places', async () => {
  const shown = async () =>
    (await service.get('/hotels?offset=2&limit=3'))
      .json()
      .map(({ id, name }: { id: string; name: string }) => `${id} ${name}`);
  // behind the blank
  const ofName = (...names: string[]) =>
    [...names, ...ids.slice(2).map((id) => `${id} Hotel ${id}`)].slice(0, 3);
  await service.sql`insert into hotels (id, name) values ('!b', 'New'), ('!d', 'New')`;
  await expect.poll(shown).toEqual(ofName('!b New', '!d New'));
  await service.sql`update hotels set name = 'Changed' where id = '!b'`;
  await service.sql`update hotels set id = '!a' where id = '!d'`;
  await expect.poll(shown).toEqual(ofName('!a New', '!b Changed'));
  await service.sql`delete from hotels where id in ('!a', '!b')`;
  await expect.poll(shown).toEqual(ofName());
});

describe('a service with a base path', () => {
  const BASE = '/data/v1';
  let own: Service;
  beforeAll(async () => {
    const hotels = ids.map((id) => ({ id, channel_id: id, registry_id: id === 'b' ? 1 : null }));
    own = await startService({ env: { BASE_PATH: BASE }, hotels });
  });

  it('has its base path before every path, and not in its links, which a gateway passes on', async () => {
    for (const path of ['/hotels', '/hotels/b', '/hotels/channel/b', '/hotels/registry/1', '/changes']) {
      expect((await own.get(`/data/v1${path}`)).text).toContain('"id":"b"');
      for (const other of ['', '/data', '/data/v2', '/data/v1/data/v1', '/DATA/v1'])
        expectError(await own.get(other + path), 404, 'Not found');
    }
    const batch = '/hotels/channel/batch';
    expect((await own.post(`/data/v1${batch}`, { channel_ids: ['b'] })).text).toContain('"id":"b"');
    expect((await own.post(batch, { channel_ids: ['b'] })).status).toBe(404);
    expect((await own.get(`/data/v1${batch}`, { method: 'PUT' })).headers.allow).toBe('GET, HEAD, POST');
    expect((await own.get('/data/v1/hotels?limit=1&offset=1')).headers.link).toMatch(
      /^<\?limit=1&offset=0>; rel="first", <\?limit=1&offset=0>; rel="prev", <\?limit=1&offset=2>; rel="next"/,
    );
    expect((await own.get('/data/v1/changes?limit=1')).headers.link).toMatch(/^<\?after=/);
  });

  it('names the last page if it is known: on itself, and everywhere after it was read', async () => {
    const lastOf = async (query: string) => linksOf(await own.get(`${BASE}/hotels${query}`)).last;
    const at = (limit: number, offset: number) => `/hotels?limit=${limit}&offset=${offset}`;
    const start = (ids.length - 1) % 7;
    // the background task that divides the list has not counted yet
    await expect.poll(() => lastOf('?limit=7')).toBeDefined();
    for (const offset of [0, 7, ids.length - 1 - start, ids.length + 70])
      expect(await lastOf(`?limit=7&offset=${offset - (offset % 7)}`)).toBe(at(7, ids.length - 1 - start));
    // its offset is as far from the start of a segment as that of the page
    expect(await lastOf('?limit=10&offset=3')).toBe(at(10, 3 + Math.floor((ids.length - 4) / 10) * 10));
    await own.sql`insert into hotels (id, name) values ('zzz', 'Z')`;
    await expect.poll(async () => (await own.get(BASE + at(1, ids.length))).json().length).toBe(1);
    expect(await lastOf(`?limit=1&offset=${ids.length}`)).toBe(at(1, ids.length));
    await own.sql`delete from hotels`;
    await expect.poll(async () => (await own.get(`${BASE}/hotels`)).text).toBe('[]');
    expect(await lastOf('')).toBe(at(20, 0));
  });
});

describe('the links of the list', () => {
  it.each([1, 44, 100])(
    'lead through all hotels by %s, without gap or repetition, and back',
    async (limit) => {
      const walk = async (path: string, relation: 'next' | 'prev') => {
        const pages: string[][] = [];
        let last = path;
        for (let at: string | undefined = path; at; ) {
          last = at;
          const response = await service.get(at);
          pages.push(idsOf(response));
          at = linksOf(response)[relation];
        }
        return { pages, last };
      };
      const { pages, last } = await walk(`/hotels?limit=${limit}`, 'next');
      expect(pages.flat()).toEqual(ids);
      for (const page of pages.slice(0, -1)) expect(page).toHaveLength(limit);
      expect((await walk(last, 'prev')).pages.reverse().flat()).toEqual(ids);
    },
  );

  it('are those that the page has', async () => {
    const linksAt = async (query: string) => linksOf(await service.get(`/hotels${query}`));
    expect(await linksAt('?registry_id=500001')).not.toHaveProperty('next');
    expect(await linksAt('?limit=50')).not.toHaveProperty('prev');
    expect(await linksAt('?limit=50&offset=100')).not.toHaveProperty('next');
    for (const query of ['?limit=30&offset=60', '?limit=30&offset=15', '?limit=30']) {
      const { first } = await linksAt(query);
      expect(idsOf(await service.get(first!))).toEqual(ids.slice(0, 30));
    }
    // an offset below the limit
    const { prev } = await linksAt('?limit=30&offset=10');
    expect(idsOf(await service.get(prev!)).slice(0, 10)).toEqual(ids.slice(0, 10));
  });

  it('preserve only the parameters of the page', async () => {
    const { headers } = await service.get('/hotels?limit=5&x=%0d%0aX-Evil:1&offset=5&y=%3E;rel=%22next%22');
    expect(headers.link).not.toMatch(/evil|[xy]=/i);
  });
});

describe('limit and offset', () => {
  it.each([
    ['limit', LIMIT, ['0', '101', '%D9%A5', 'NaN', '%zz', '5%20', '+5', '5,5', '%205']],
    ['offset', OFFSET, ['Infinity', `-${'9'.repeat(30)}`]],
    ['registry_id', NOT_INTEGER, ['--5', '-', 'null', '5,6', '%2B5', '%205', '5%20']],
  ])('are rejected with their bounds, as a wrong registry_id is: %s', async (name, sentence, values) => {
    for (const value of [...values, 'abc', '1.5', '', '%20', '1e1', '0x10', '%00', '%ff'])
      await expectRejected(`?${name}=${value}`, sentence);
    if (name !== 'registry_id') await expectRejected(`?registry_id=500007&${name}=-1`, sentence);
    await expectRejected(`?x=1&${name}`, sentence);
    // the first of repeated ones counts
    await expectRejected(`?${name}=abc&${name}=2`, sentence);
  });

  it('may be percent-encoded, name and value, and count once', async () => {
    expect(await list('?%6cimit=%33&off%73et=%32')).toEqual(ids.slice(2, 5));
    expect(await list('?registry%5Fid=%35%30%30%30%30%31&registry_id=abc')).toEqual(['hotel-1']);
    expect(await list('?limit=007&limit=abc&%6cimit=0&offset=1&offset=-1')).toEqual(ids.slice(1, 8));
    await expectRejected('?%6Cimit=0', LIMIT);
  });

  it.each([
    ...['?Limit=0', '?limit[]=0', '?limit%20=0', '?x=limit=0', '?registry=1', '?page=3&sort=name&fields=id'],
    ...['?__proto__=1&constructor=2', '?%zz=1&%=2&=3&&&', '?%00=1', '?%ff=%ff', '?channel_id=CH-1'],
    ...['?x=1&offset=0&%zz&limit=20&limit_=7', `?x=${'y'.repeat(2_000)}`],
  ])('are the only effective parameters, beside registry_id: %s', async (query) => {
    expect(await list(query)).toEqual(ids.slice(0, 20));
  });
});

it.each([
  ['500007', ['hotel-7']],
  ['0500007', ['hotel-7']],
  ['-5', ['minus']],
  ['1', []],
  ['9223372036854775808', []],
  ['9'.repeat(30), []],
  ['500007&limit=1&offset=0', ['hotel-7']],
  ['500007&offset=1', []],
])('the filter by the registry id %s results in %j', async (value, expected) => {
  for (let round = 0; round < 2; round++) expect(await list(`?registry_id=${value}`)).toEqual(expected);
});

it('no request caused an error in the log', () => {
  expect(errorsIn(service.logs())).toEqual([]);
});
