import { beforeAll, describe, expect, it } from 'vitest';
import type { HttpResponse } from '../support/client.ts';
import { idsOf } from '../support/ids.ts';
import { errorsIn } from '../support/log-lines.ts';
import { type Service, startService } from '../support/service.ts';
import { titled } from '../support/titled.ts';

/** In UTF-16 the emoji would precede U+FF01; in most languages é would precede Z. */
const ODD_IDS = [...'aBéZAb0', '10', ...'9_~ ä', 'a b', 'a-b', 'ab', 'aB', ...'\u0001\uff01😀/'];

let service: Service;
let ids: string[];

beforeAll(async () => {
  const hotels = [
    ...ODD_IDS.map((id) => ({ id })),
    ...Array.from({ length: 110 }, (_, i) => ({ id: `hotel-${i}`, registry_id: 500_000 + i })),
    { id: 'minus', registry_id: -5 },
  ];
  ids = hotels.map(({ id }) => id).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  service = await startService({ hotels });
});

const list = async (query: string) => idsOf(await service.get(`/hotels${query}`));

function expectRejected(response: HttpResponse, sentence: RegExp): void {
  expect(response.status).toBe(400);
  expect(Object.keys(response.json())).toEqual(['error']);
  expect(response.json().error).toMatch(sentence);
}

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
    expect(await list('')).toEqual(ids.slice(0, 20));
    expect(await list('?')).toEqual(ids.slice(0, 20));
    expect(await list('?limit=20&offset=0')).toEqual(ids.slice(0, 20));
  });

  it('is ordered by the bytes of the ids', async () => {
    expect([...(await list('?limit=100')), ...(await list('?limit=100&offset=100'))]).toEqual(ids);
  });

  it.each([
    [1, 0],
    [1, 1],
    [100, 0],
    [100, 31],
    [7, 130],
    [50, 100],
    [3, 129],
  ])('contains limit %s hotels after offset %s, or as many as exist', async (limit, offset) => {
    for (let round = 0; round < 2; round++) {
      expect(await list(`?limit=${limit}&offset=${offset}`)).toEqual(ids.slice(offset, offset + limit));
    }
  });

  it('is empty beyond its end', async () => {
    for (const offset of [
      ids.length,
      ids.length + 1,
      1_000_000,
      '9007199254740993',
      '9223372036854775808',
      '9'.repeat(30),
    ]) {
      const response = await service.get(`/hotels?offset=${offset}`);
      expect([response.status, response.text]).toEqual([200, '[]']);
      expect(linksOf(response)).not.toHaveProperty('next');
    }
  });

  it('is the same for a key without the scope, except for the registry ids', async () => {
    const narrow = await service.get('/hotels?limit=100&offset=20', { key: 'narrow' });
    const full = await service.get('/hotels?limit=100&offset=20');
    expect(narrow.text).toBe(full.text.replace(/"registry_id":-?\d+}/g, '"registry_id":null}'));
    expect(full.text).not.toBe(narrow.text);
  });

  it('contains inserted, changed, renamed and deleted hotels within a second, at the right places', async () => {
    const own = await startService({ hotels: ['a', 'c', 'e'].map((id) => ({ id })) });
    const shown = async () =>
      (await own.get('/hotels')).json().map(({ id, name }: { id: string; name: string }) => [id, name]);
    expect(await shown()).toEqual([
      ['a', 'Hotel a'],
      ['c', 'Hotel c'],
      ['e', 'Hotel e'],
    ]);
    await own.sql`insert into hotels (id, name) values ('b', 'New')`;
    await expect.poll(shown).toContainEqual(['b', 'New']);
    await own.sql`update hotels set name = 'Changed' where id = 'c'`;
    await expect.poll(shown).toContainEqual(['c', 'Changed']);
    await own.sql`update hotels set id = 'd' where id = 'e'`;
    await own.sql`delete from hotels where id = 'a'`;
    const expected = [
      ['b', 'New'],
      ['c', 'Changed'],
      ['d', 'Hotel e'],
    ];
    await expect.poll(shown).toEqual(expected);
    await own.sql`truncate hotels`;
    await expect.poll(shown).toEqual([]);
    await own.stop();
  });
});

describe('the links of the list', () => {
  it.each([1, 7, 20, 44, 66, 100])(
    'lead through all hotels by %s, without gap or repetition, and back',
    async (limit) => {
      const seen: string[] = [];
      let path = `/hotels?limit=${limit}`;
      let last = path;
      for (let pages = 0; pages <= ids.length; pages++) {
        const response = await service.get(path);
        const page = idsOf(response);
        const { next } = linksOf(response);
        seen.push(...page);
        last = path;
        if (!next) break;
        expect(page).toHaveLength(limit);
        path = next;
      }
      expect(seen).toEqual(ids);

      const back: string[] = [];
      for (let pages = 0; pages <= ids.length; pages++) {
        const response = await service.get(last);
        back.unshift(...idsOf(response));
        const { prev } = linksOf(response);
        if (!prev) break;
        last = prev;
      }
      expect(back).toEqual(ids);
    },
  );

  it('name the last page if it is known: on itself, and everywhere after it was read', async () => {
    const own = await startService({ hotels: ids.map((id) => ({ id })) });
    const lastOf = async (query: string) => linksOf(await own.get(`/hotels${query}`)).last;
    const at = (limit: number, offset: number) => `/hotels?limit=${limit}&offset=${offset}`;
    const start = (ids.length - 1) % 7;
    // the background task that divides the list has not counted yet
    await expect.poll(() => lastOf('?limit=7')).toBeDefined();
    for (const offset of [0, 7, ids.length - 1 - start, ids.length + 70])
      expect(await lastOf(`?limit=7&offset=${offset - (offset % 7)}`)).toBe(at(7, ids.length - 1 - start));
    // its offset is as far from the start of a segment as that of the page
    expect(await lastOf('?limit=10&offset=3')).toBe(at(10, 3 + Math.floor((ids.length - 4) / 10) * 10));
    expect(await lastOf(`?limit=100&offset=${ids.length - 1}`)).toBe(at(100, ids.length - 1));
    await own.sql`insert into hotels (id, name) values ('zzz', 'Z')`;
    await expect.poll(async () => (await own.get(at(1, ids.length))).json().length).toBe(1);
    expect(await lastOf(`?limit=1&offset=${ids.length}`)).toBe(at(1, ids.length));
    await own.sql`delete from hotels`;
    await expect.poll(async () => (await own.get('/hotels')).text).toBe('[]');
    expect(await lastOf('')).toBe(at(20, 0));
    await own.stop();
  });

  it('are absolute if PUBLIC_URL is set', async () => {
    const env = { PUBLIC_URL: 'https://hotels.example.com', BASE_PATH: '/data/v1' };
    const own = await startService({ env, hotels: ['a', 'b', 'c'].map((id) => ({ id })) });
    const address = 'https://hotels.example.com/data/v1/hotels';
    expect((await own.get('/data/v1/hotels?limit=1&offset=1')).headers.link).toMatch(
      `<${address}?limit=1&offset=0>; rel="first", <${address}?limit=1&offset=0>; rel="prev", ` +
        `<${address}?limit=1&offset=2>; rel="next"`,
    );
    await own.stop();
  });

  it('contain only the first page on a page that is first and last', async () => {
    const { next, prev } = linksOf(await service.get('/hotels?registry_id=500001'));
    expect([next, prev]).toEqual([undefined, undefined]);
    expect(linksOf(await service.get('/hotels?limit=50'))).not.toHaveProperty('prev');
    expect(linksOf(await service.get('/hotels?limit=50&offset=100'))).not.toHaveProperty('next');
  });

  it('lead to the first page from everywhere', async () => {
    for (const query of ['?limit=30&offset=60', '?limit=30&offset=100', '?limit=30&offset=15', '?limit=30']) {
      const { first } = linksOf(await service.get(`/hotels${query}`));
      expect(idsOf(await service.get(first!))).toEqual(ids.slice(0, 30));
    }
  });

  it('lead to the start from an offset below the limit', async () => {
    const { prev } = linksOf(await service.get('/hotels?limit=30&offset=10'));
    expect((await list(prev!.slice('/hotels'.length))).slice(0, 10)).toEqual(ids.slice(0, 10));
  });

  it('preserve only the parameters of the page', async () => {
    const { headers } = await service.get('/hotels?limit=5&x=%0d%0aX-Evil:1&offset=5&y=%3E;rel=%22next%22');
    expect(headers.link).not.toMatch(/evil|[xy]=/i);
  });
});

describe('limit and offset', () => {
  it.each([
    '0',
    '101',
    '-1',
    'abc',
    '1.5',
    '',
    '%20',
    '%205',
    '5%20',
    '1e1',
    '0x10',
    '5,5',
    '+5',
    '%ff',
    '٥',
    '%D9%A5',
    'NaN',
    '%00',
    '9'.repeat(30),
    '-0.5',
    '%zz',
  ])('reject a limit of %j and name its bounds', async (value) => {
    expectRejected(await service.get(`/hotels?limit=${encodeRaw(value)}`), /limit.*\b1\b.*\b100\b/);
    expectRejected(await service.get(`/hotels?offset=5&limit=${encodeRaw(value)}`), /limit.*\b1\b.*\b100\b/);
  });

  it.each([
    '-1',
    'abc',
    '1.5',
    '',
    '%20',
    '%205',
    '1e1',
    '0x10',
    'Infinity',
    '%00',
    `-${'9'.repeat(30)}`,
    '%ff',
  ])('reject an offset of %j and name its bound', async (value) => {
    expectRejected(await service.get(`/hotels?offset=${value}`), /offset.*\b0\b/);
  });

  it('may be percent-encoded, name and value', async () => {
    expect(await list('?%6cimit=%33&off%73et=%32')).toEqual(ids.slice(2, 5));
    expect(await list('?registry%5Fid=%35%30%30%30%30%31')).toEqual(['hotel-1']);
    expectRejected(await service.get('/hotels?%6Cimit=0'), /limit/);
    expect(await list('?limit=007')).toEqual(ids.slice(0, 7));
    expectRejected(await service.get('/hotels?limit'), /limit/);
    expectRejected(await service.get('/hotels?registry_id'), /registry_id/);
  });

  it('count once: the first of repeated ones', async () => {
    expect(await list('?limit=2&limit=3')).toEqual(ids.slice(0, 2));
    expect(await list('?limit=2&limit=abc&limit=0')).toEqual(ids.slice(0, 2));
    expect(await list('?limit=2&%6cimit=abc')).toEqual(ids.slice(0, 2));
    expect(await list('?offset=1&limit=2&offset=-1')).toEqual(ids.slice(1, 3));
    expectRejected(await service.get('/hotels?limit=abc&limit=2'), /limit/);
    expectRejected(await service.get('/hotels?offset=-1&offset=2'), /offset/);
    expect(await list('?registry_id=500001&registry_id=abc')).toEqual(['hotel-1']);
    expectRejected(
      await service.get('/hotels?registry_id=abc&registry_id=500001'),
      /^registry_id must be an integer$/,
    );
  });

  it.each(
    [
      '?limits=0',
      '?Limit=0',
      '?LIMIT=abc',
      '?limit[]=0',
      '?limit%20=0',
      '?x=limit=0',
      '?registry=1',
      '?page=3&sort=name&fields=id',
      '?__proto__=1&constructor=2&toString=3',
      '?%zz=1&%=2&=3&&&',
      '?%00=1',
      '?%ff=%ff',
      '?a',
      '?channel_id=CH-1',
      `?x=${'y'.repeat(2_000)}`,
    ].map(titled),
  )('are the only effective parameters, beside registry_id: %s', async (_, query) => {
    expect(await list(query)).toEqual(ids.slice(0, 20));
  });

  it('are found among unknown ones, in any order', async () => {
    expect(await list('?x=1&offset=3&%zz&limit=2&limit_=7')).toEqual(ids.slice(3, 5));
    expect(await list('?&&limit=2&')).toEqual(ids.slice(0, 2));
  });
});

describe('the filter by registry id', () => {
  it('results in one hotel or none', async () => {
    for (let round = 0; round < 2; round++) {
      expect(await list('?registry_id=500007')).toEqual(['hotel-7']);
      expect(await list('?registry_id=0500007')).toEqual(['hotel-7']);
      expect(await list('?registry_id=-5')).toEqual(['minus']);
      expect(await list('?registry_id=1')).toEqual([]);
      expect(await list('?registry_id=9223372036854775808')).toEqual([]);
      expect(await list(`?registry_id=${'9'.repeat(30)}`)).toEqual([]);
    }
  });

  it('is paged like the list', async () => {
    expect(await list('?registry_id=500007&limit=1&offset=0')).toEqual(['hotel-7']);
    expect(await list('?registry_id=500007&offset=1')).toEqual([]);
    expectRejected(await service.get('/hotels?registry_id=500007&limit=0'), /limit/);
    expectRejected(await service.get('/hotels?registry_id=500007&offset=-1'), /offset/);
  });

  it.each([
    '',
    '%20',
    'abc',
    '1.5',
    '1e3',
    '0x10',
    '%2B5',
    '%205',
    '5%20',
    '%00',
    '%ff',
    '--5',
    '-',
    'null',
    '5,6',
    '500001;500002',
  ])('rejects values that are not integers: %j', async (value) => {
    expectRejected(await service.get(`/hotels?registry_id=${value}`), /^registry_id must be an integer$/);
  });

  it.each(['500007', '1', 'abc', '', '1.5', '500007&limit=0', '500007&offset=abc'])(
    'is forbidden to a key without the scope, for any value: %j',
    async (value) => {
      const response = await service.get(`/hotels?registry_id=${value}`, { key: 'narrow' });
      expect([response.status, response.text]).toEqual([403, '{"error":"Forbidden"}']);
    },
  );
});

it('no request caused an error in the log', () => {
  expect(errorsIn(service.logs())).toEqual([]);
});

/** Encodes what is not permitted in a request line, and preserves what is encoded. */
function encodeRaw(value: string): string {
  return value.replace(/[^\x20-\x7e]/g, encodeURIComponent);
}
