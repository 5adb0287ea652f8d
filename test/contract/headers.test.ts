import { beforeAll, describe, expect, it } from 'vitest';
import type { HttpResponse, RequestOptions } from '../support/client.ts';
import { CODINGS, DECODERS } from '../support/decoders.ts';
import { type Service, startService } from '../support/service.ts';
import { titled } from '../support/titled.ts';

const KIB = 1024;

let service: Service;

beforeAll(async () => {
  service = await startService({
    hotels: [
      { id: 'small', channel_id: 'CH-small', registry_id: 500001 },
      {
        id: 'large',
        channel_id: 'CH-large',
        registry_id: 500002,
        description: 'Ein Haus am See. é😀 '.repeat(200),
      },
      { id: 'unmapped', channel_id: 'CH-unmapped' },
      // found by trial: the tag of its JSON ends in "-br"
      { id: 'suffix', name: 'N275569' },
      ...Array.from({ length: 40 }, (_, i) => ({ id: `x${i}`, registry_id: 600_000 + i })),
    ],
  });
});

/** Every GET of the contract, over and under 1 KiB. */
const READS = [
  '/hotels',
  '/hotels?limit=1',
  '/hotels?offset=1000',
  '/hotels?registry_id=500001',
  '/hotels/small',
  '/hotels/large',
  '/hotels/channel/CH-small',
  '/hotels/channel/CH-large',
  '/hotels/registry/500001',
  '/hotels/registry/500002',
];

const tagOf = (response: HttpResponse) => String(response.headers.etag);
const varyOf = (response: HttpResponse) => String(response.headers.vary).toLowerCase().split(/, */).sort();

async function good(path: string, options: RequestOptions = {}): Promise<HttpResponse> {
  const response = await service.get(path, options);
  expect(response.status).toBe(200);
  return response;
}

describe('every 200 of a GET', () => {
  it.each(READS)('has its tag, its length and its cache directives: %s', async (path) => {
    for (const key of path.includes('registry') ? ['full'] : ['full', 'narrow']) {
      const response = await good(path, { key });
      expect(tagOf(response)).toMatch(/^(W\/)?"[\x21\x23-\x7e]+"$/);
      expect(response.headers['cache-control']).toBe('private, no-cache');
      expect(varyOf(response)).toEqual(['accept-encoding', 'x-api-key']);
      expect(response.headers['content-type']).toBe('application/json');
      expect(response.headers['content-length']).toBe(String(response.body.length));
    }
  });

  it.each(READS)('has its tag as the only validator: %s', async (path) => {
    expect(tagOf(await good(path))).toBe(tagOf(await good(path)));
  });

  it('carries one tag per header', async () => {
    const head = `GET /hotels/small HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\nConnection: close\r\n\r\n`;
    const [lines] = (await service.raw(head)).toString().split('\r\n\r\n');
    const names = lines!
      .toLowerCase()
      .split('\r\n')
      .slice(1)
      .map((line) => line.split(':')[0]);
    expect(names).toEqual([...new Set(names)]);
  });
});

describe('the tag', () => {
  it.each(['/hotels', '/hotels?limit=1', '/hotels/small', '/hotels/large', '/hotels/channel/CH-small'])(
    'differs between keys that receive different bytes: %s',
    async (path) => {
      const [full, narrow] = [await good(path), await good(path, { key: 'narrow' })];
      expect(full.text).not.toBe(narrow.text);
      expect(tagOf(full)).not.toBe(tagOf(narrow));
      const headers = { 'if-none-match': tagOf(full) };
      expect((await service.get(path, { key: 'narrow', headers })).status).toBe(200);
    },
  );

  it('differs between pages and between hotels', async () => {
    const tags = await Promise.all(
      [
        '/hotels?limit=2',
        '/hotels?limit=3',
        '/hotels?limit=2&offset=1',
        '/hotels/small',
        '/hotels/large',
        '/hotels/unmapped',
      ].map(async (path) => tagOf(await good(path))),
    );
    expect(new Set(tags).size).toBe(tags.length);
  });

  it('changes within a second of a change of the hotel', async () => {
    const id = await service.insert({ name: 'Before' });
    const before = tagOf(await good(`/hotels/${id}`));
    await service.sql`update hotels set name = 'After' where id = ${id}`;
    const headers = { 'if-none-match': before };
    await expect.poll(async () => (await service.get(`/hotels/${id}`, { headers })).status).toEqual(200);
    const after = await good(`/hotels/${id}`);
    expect(after.json().name).toBe('After');
    expect(tagOf(after)).not.toBe(before);
  });

  it('of a list changes within a second of a change of one of its hotels', async () => {
    const id = await service.insert({ id: '!first', name: 'Before' });
    await expect.poll(async () => (await good('/hotels?limit=1')).json()[0].name).toEqual('Before');
    const headers = { 'if-none-match': tagOf(await good('/hotels?limit=1')) };
    await service.sql`update hotels set name = 'After' where id = ${id}`;
    await expect.poll(async () => (await service.get('/hotels?limit=1', { headers })).status).toEqual(200);
    await service.sql`delete from hotels where id = ${id}`;
    await expect.poll(async () => (await good('/hotels?limit=1')).json()[0].id).not.toBe(id);
  });
});

describe('If-None-Match', () => {
  const conditions: [claim: string, status: number, (tag: string) => string][] = [
    ['the tag', 304, (tag) => tag],
    ['the tag as a weak tag', 304, (tag) => `W/${tag.replace('W/', '')}`],
    ['a list with the tag', 304, (tag) => `"a", ${tag}, "b"`],
    ['a list without spaces', 304, (tag) => `"a",W/"b",${tag}`],
    ['a list with a comma within a tag', 304, (tag) => `"a,b", ${tag}`],
    ['a list with empty elements', 304, (tag) => `, ,${tag},`],
    ['anything', 304, () => '*'],
    ['another tag', 200, () => '"another"'],
    ['a part of the tag', 200, (tag) => `${tag.slice(0, -2)}"`],
    ['more than the tag', 200, (tag) => `${tag.slice(0, -1)}x"`],
    ['the tag in another tag', 200, (tag) => `"${tag.replaceAll('"', '')} "`],
    ['nothing', 200, () => ''],
    ['an asterisk in quotes', 200, () => '"*"'],
    ['the tag without quotes', 200, (tag) => tag.replaceAll('"', '')],
    ['the tag without its last quote', 200, (tag) => tag.slice(0, -1)],
  ];

  it.each(conditions)('with %s results in %s', async (_, status, condition) => {
    for (const path of [
      '/hotels/small',
      '/hotels/large',
      '/hotels',
      '/hotels/channel/CH-small',
      '/hotels/registry/500002',
    ]) {
      const plain = await good(path);
      const response = await service.get(path, { headers: { 'if-none-match': condition(tagOf(plain)) } });
      expect(response.status).toBe(status);
      expect(tagOf(response)).toBe(tagOf(plain));
      expect(response.headers['cache-control']).toBe('private, no-cache');
      expect(varyOf(response)).toEqual(['accept-encoding', 'x-api-key']);
      expect(response.text).toBe(status === 304 ? '' : plain.text);
    }
  });

  it('results in 304 for a tag that ends like the name of a coding', async () => {
    const headers = { 'if-none-match': tagOf(await good('/hotels/suffix')) };
    expect((await service.get('/hotels/suffix', { headers })).status).toBe(304);
  });

  it('has the same result for HEAD as for GET', async () => {
    const headers = { 'if-none-match': tagOf(await good('/hotels/small')) };
    const response = await service.get('/hotels/small', { method: 'HEAD', headers });
    expect([response.status, response.text]).toEqual([304, '']);
  });

  it('results in 304 without a content type, and with all other headers of the 200', async () => {
    const ofHotel = ({ headers }: HttpResponse): Record<string, unknown> => {
      const { date: _, 'x-request-id': __, 'content-type': ___, 'content-length': ____, ...rest } = headers;
      return rest;
    };
    for (const path of [...READS, '/docs', '/openapi.json']) {
      for (const method of ['GET', 'HEAD']) {
        for (const accept of ['identity', 'gzip', 'zstd, br']) {
          const headers = { 'accept-encoding': accept };
          const plain = await good(path, { method, headers });
          const same = await service.get(path, {
            method,
            headers: { ...headers, 'if-none-match': plain.headers.etag },
          });
          expect([same.status, same.text]).toEqual([304, '']);
          expect(same.headers).not.toHaveProperty('content-type');
          expect(ofHotel(same)).toEqual(ofHotel(plain));
        }
      }
    }
  });

  it('results in the links of the page, for 200 and 304', async () => {
    const page = '/hotels?limit=2&offset=2';
    const { headers } = await good(page);
    expect(headers.link).toMatch(/rel="first".*rel="prev".*rel="next"/);
    for (const method of ['GET', 'HEAD']) {
      const same = await service.get(page, { method, headers: { 'if-none-match': headers.etag } });
      expect([same.status, same.headers.link]).toEqual([304, headers.link]);
    }
  });

  it('does not bypass checks of the key, the scope, the values and the existence of the hotel', async () => {
    const tag = tagOf(await good('/hotels/registry/500001'));
    for (const condition of ['*', tag]) {
      const headers = { 'if-none-match': condition };
      const status = async (path: string, key?: string) => (await service.get(path, { key, headers })).status;
      expect(await status('/hotels/small', 'none')).toBe(401);
      expect(await status('/hotels/small', 'nonsense')).toBe(401);
      expect(await status('/hotels', 'none')).toBe(401);
      expect(await status('/hotels/registry/500001', 'narrow')).toBe(403);
      expect(await status('/hotels?registry_id=500001', 'narrow')).toBe(403);
      expect(await status('/hotels/registry/abc')).toBe(400);
      expect(await status('/hotels?limit=0')).toBe(400);
      expect(await status('/hotels/nowhere')).toBe(404);
      expect(await status('/nowhere')).toBe(404);
    }
  });

  it('has no effect on a batch', async () => {
    const headers = { 'if-none-match': '*' };
    expect(
      (await service.post('/hotels/channel/batch', { channel_ids: ['CH-small'] }, { headers })).status,
    ).toBe(200);
  });
});

describe('x-request-id', () => {
  it.each(['a', '7f0c4b1e-6b0f-4a3c-9d25-0e6f4f0a2b11', '7f3c-_.~+/=:@Z', 'x'.repeat(128)])(
    'is echoed if it is well-formed: %s',
    async (id) => {
      for (const path of ['/hotels/small', '/hotels', '/hotels/nowhere', '/nowhere']) {
        expect((await service.get(path, { headers: { 'x-request-id': id } })).headers['x-request-id']).toBe(
          id,
        );
      }
      const rejected = await service.get('/hotels', { key: 'none', headers: { 'x-request-id': id } });
      expect(rejected.headers['x-request-id']).toBe(id);
      const batch = await service.post(
        '/hotels/channel/batch',
        { channel_ids: [] },
        { headers: { 'x-request-id': id } },
      );
      expect(batch.headers['x-request-id']).toBe(id);
    },
  );

  it.each(
    [
      '',
      'a b',
      'a;b',
      'a,b',
      "a'b",
      '%0a',
      'x'.repeat(129),
      '"quoted"',
      'a\tb',
      'é',
      '<script>',
      'a\u00a0b',
      '{"a":1}',
    ].map(titled),
  )('is replaced if it is malformed: %s', async (_, id) => {
    const { headers } = await service.get('/hotels/small', { headers: { 'x-request-id': id } });
    expect(headers['x-request-id']).not.toBe(id);
    expect(headers['x-request-id']).toMatch(/^[A-Za-z0-9._-]{8,64}$/);
  });

  it('is generated if it is missing, differently for each request', async () => {
    const ids = await Promise.all(
      Array.from({ length: 50 }, async () => (await service.get('/hotels/small')).headers['x-request-id']),
    );
    expect(new Set(ids).size).toBe(50);
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9._-]{8,64}$/);
  });

  it('is in the log line of a failed request', async () => {
    await service.sql`revoke select on hotels from hotel_api_serve`;
    try {
      const response = await service.get('/hotels/never-asked', { headers: { 'x-request-id': 'find-me-1' } });
      expect(response.status).toBeGreaterThanOrEqual(500);
      expect(response.headers['x-request-id']).toBe('find-me-1');
      const made = await service.get('/hotels/never-asked');
      expect(made.status).toBeGreaterThanOrEqual(500);
      const printed = () => service.logs().join('\n');
      await expect.poll(printed).toContain('find-me-1');
      await expect.poll(printed).toContain(made.headers['x-request-id']);
    } finally {
      await service.sql`grant select on hotels to hotel_api_serve`;
    }
  });
});

describe('HEAD', () => {
  it.each(READS)('has the headers of GET, including the length, without the body: %s', async (path) => {
    for (const headers of [{}, { 'accept-encoding': 'gzip' }, { 'accept-encoding': 'zstd, br' }]) {
      const [get, head] = [await good(path, { headers }), await good(path, { headers, method: 'HEAD' })];
      expect(head.body).toHaveLength(0);
      expect(head.headers['content-length']).toBe(String(get.body.length));
      expect(ofEveryAnswer(head)).toEqual(ofEveryAnswer(get));
    }
  });

  it.each([
    ['/hotels', 'none', 401],
    ['/hotels/registry/500001', 'narrow', 403],
    ['/hotels/registry/abc', 'full', 400],
    ['/hotels/nowhere', 'full', 404],
    ['/hotels/channel/nowhere', 'full', 404],
    ['/hotels/registry/1', 'full', 404],
    ['/hotels?limit=0', 'full', 400],
    ['/nowhere', 'full', 404],
  ])('of %s with the key "%s" is %s, as GET', async (path, key, status) => {
    const [get, head] = [await service.get(path, { key }), await service.get(path, { key, method: 'HEAD' })];
    expect([get.status, head.status, head.text]).toEqual([status, status, '']);
    expect(head.headers['content-length']).toBe(String(get.body.length));
    expect(ofEveryAnswer(head)).toEqual(ofEveryAnswer(get));
  });

  it('leaves the connection synchronised', async () => {
    const head = (method: string, last = '') =>
      `${method} /hotels/small HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n${last}\r\n`;
    await good('/hotels/small');
    const text = (
      await service.raw(head('HEAD') + head('HEAD') + head('GET', 'Connection: close\r\n'))
    ).toString();
    expect(text.match(/HTTP\/1\.1 200 /g)).toHaveLength(3);
    expect(text.match(/"id":"small"/g)).toHaveLength(1);
  });

  /** Removes what differs between responses. */
  function ofEveryAnswer({ headers }: HttpResponse): Record<string, unknown> {
    const { date: _, 'x-request-id': __, ...rest } = headers;
    return rest;
  }
});

describe('compression', () => {
  const LARGE = ['/hotels/large', '/hotels', '/hotels/channel/CH-large', '/hotels/registry/500002'];
  const SMALL = ['/hotels/small', '/hotels?limit=1', '/hotels?offset=1000'];
  const encodingOf = async (path: string, accept: string) =>
    (await good(path, { headers: { 'accept-encoding': accept } })).headers['content-encoding'] ?? 'identity';

  it.each(CODINGS)('by %s preserves the bytes', async (coding) => {
    for (const path of LARGE) {
      for (const key of path.includes('registry') ? ['full'] : ['full', 'narrow']) {
        const plain = await good(path, { key });
        for (let round = 0; round < 2; round++) {
          const response = await good(path, { key, headers: { 'accept-encoding': coding } });
          expect(response.headers['content-encoding']).toBe(coding);
          expect(response.headers['content-type']).toBe('application/json');
          expect(response.headers['content-length']).toBe(String(response.body.length));
          expect(varyOf(response)).toEqual(['accept-encoding', 'x-api-key']);
          expect(response.body.length).toBeLessThan(plain.body.length);
          expect(DECODERS[coding](response.body).equals(plain.body)).toBe(true);
        }
      }
    }
  });

  it.each(CODINGS)('by %s applies to batches', async (coding) => {
    const body = { channel_ids: ['CH-large', 'CH-small'] };
    const plain = await service.post('/hotels/channel/batch', body);
    const headers = { 'accept-encoding': coding };
    const response = await service.post('/hotels/channel/batch', body, { headers });
    expect([plain.headers['content-encoding'], response.headers['content-encoding']]).toEqual([
      undefined,
      coding,
    ]);
    expect(varyOf(plain)).toEqual(['accept-encoding', 'x-api-key']);
    expect(DECODERS[coding](response.body).equals(plain.body)).toBe(true);
  });

  it('does not apply to bodies of up to 1 KiB, and applies above', async () => {
    const sized = async (id: string, description: string) => {
      await service.insert({ id, description });
      const { body } = await good(`/hotels/${id}`);
      return { bytes: body.length, encoding: await encodingOf(`/hotels/${id}`, 'gzip') };
    };
    const { bytes } = await sized('size-0', '');
    expect(await sized('size-1', 'x'.repeat(KIB - bytes))).toEqual({ bytes: KIB, encoding: 'identity' });
    expect(await sized('size-2', 'x'.repeat(KIB + 1 - bytes))).toEqual({ bytes: KIB + 1, encoding: 'gzip' });
    for (const path of SMALL) expect(await encodingOf(path, 'zstd, br, gzip')).toBe('identity');
  });

  it.each<[accept: string, expected: string[]]>([
    ['gzip', ['gzip']],
    ['GZIP', ['gzip']],
    ['br', ['br']],
    ['zstd', ['zstd']],
    ['gzip, deflate, br, zstd', ['zstd', 'br', 'gzip']],
    ['gzip,br', ['br', 'gzip']],
    ['gzip;q=1, br;q=0.5', ['gzip']],
    ['gzip;q=0.2, br;q=0.9, zstd;q=0.5', ['br']],
    ['gzip;q=0.001', ['gzip']],
    ['br;q=0, gzip', ['gzip']],
    ['zstd;q=0, br;q=0, gzip;q=0', ['identity']],
    ['gzip;q=0', ['identity']],
    ['gzip;q=0.0', ['identity']],
    ['gzip ; q=0.5', ['gzip']],
    ['identity', ['identity']],
    ['identity;q=1, gzip;q=0.5', ['identity']],
    ['gzip, identity;q=0.5', ['gzip']],
    ['', ['identity']],
    ['deflate', ['identity']],
    ['compress, x-unknown', ['identity']],
    ['gzipp', ['identity']],
    ['xgzip', ['identity']],
    ['*', ['gzip']],
    ['gzip, *', ['gzip']],
    ['br, *', ['br']],
    ['identity, *', ['identity']],
    ['*;q=0.5, gzip;q=0', ['identity']],
    ['Zstd;q=0.9, *;q=0.1', ['zstd']],
    ['br;q=0.5, *', ['gzip']],
    ['deflate, *;q=0.5', ['gzip']],
    ['identity;q=0', ['identity']],
    ['\u00e9', ['identity']],
    [',,;q=,gzip;q=x;;', ['gzip', 'identity']],
  ])('responds to Accept-Encoding "%s" with %j', async (accept, expected) => {
    expect(expected).toContain(await encodingOf('/hotels/large', accept));
  });

  it('does not apply without Accept-Encoding', async () => {
    for (const path of [...LARGE, ...SMALL])
      expect((await good(path)).headers['content-encoding']).toBeUndefined();
  });

  it('keeps conditional requests correct', async () => {
    for (const path of ['/hotels/large', '/hotels']) {
      const plain = tagOf(await good(path));
      for (const coding of CODINGS) {
        const accept = { 'accept-encoding': coding };
        const tag = tagOf(await good(path, { headers: accept }));
        const response = await service.get(path, { headers: { ...accept, 'if-none-match': tag } });
        expect([response.status, response.text, tagOf(response)]).toEqual([304, '', tag]);
        // a strong tag identifies bytes, and these differ
        if (!tag.startsWith('W/')) expect(tag).not.toBe(plain);
        const narrow = await service.get(path, {
          key: 'narrow',
          headers: { ...accept, 'if-none-match': tag },
        });
        expect(narrow.status).toBe(200);
      }
    }
  });

  it('does not apply to errors', async () => {
    const headers = { 'accept-encoding': 'gzip, br, zstd' };
    expect((await service.get('/hotels/nowhere', { headers })).text).toBe('{"error":"Hotel not found"}');
  });
});

it('no response permits a page of another origin to read it', async () => {
  const headers = {
    origin: 'https://elsewhere.example',
    'access-control-request-method': 'GET',
    'access-control-request-headers': 'x-api-key',
  };
  for (const path of [...READS, '/hotels/channel/batch', '/nowhere', '/docs', '/openapi.json']) {
    for (const method of ['GET', 'HEAD', 'OPTIONS']) {
      const response = await service.get(path, { method, headers });
      expect(Object.keys(response.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
  }
});
