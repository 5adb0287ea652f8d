import { describe, expect, it } from 'vitest';
import { CODINGS, type Coding, DECODERS, type HttpResponse, type RequestOptions } from '../support/client.ts';
import { comparableHeaders } from '../support/responses.ts';
import { startService } from '../support/service.ts';

const KIB = 1024;
const LONG = 'Ein Haus am See. é😀 '.repeat(200);
const BATCH = '/hotels/channel/batch';

const service = await startService({
  hotels: [
    { id: 'small', channel_id: 'CH-small', registry_id: 500001 },
    { id: 'large', channel_id: 'CH-large', registry_id: 500002, description: LONG },
    { id: 'unmapped', channel_id: 'CH-unmapped' },
    { id: '#first', registry_id: 500003 },
    // found by trial: the tag of its JSON ends in "-br"
    { id: 'suffix', name: 'N275569' },
    ...Array.from({ length: 40 }, (_, i) => ({ id: `x${i}`, registry_id: 600_000 + i })),
  ],
});

/** Every GET of the contract, over and under 1 KiB. */
const READS = [
  ...['/hotels', '/hotels?limit=1', '/hotels?offset=1000', '/hotels?registry_id=500001', '/hotels/small'],
  ...['/hotels/large', '/hotels/channel/CH-small', '/hotels/channel/CH-large', '/hotels/registry/500001'],
  ...['/hotels/registry/500002', '/changes', '/key'],
];
const keysFor = (path: string) => (path.includes('registry') ? ['full'] : ['full', 'narrow']);

const tagOf = (response: HttpResponse) => String(response.headers.etag);

async function good(path: string, options: RequestOptions = {}): Promise<HttpResponse> {
  const response = await service.get(path, options);
  expect(response.status).toBe(200);
  return response;
}

it.each(READS)('every 200 of a GET has these headers, as have HEAD and 304: %s', async (path) => {
  // of the list, the last page is known when its positions are counted
  await expect.poll(async () => (await service.get('/hotels')).headers.link).toContain('rel="last"');
  for (const key of keysFor(path))
    for (const accept of ['identity', 'gzip', 'zstd, br']) {
      const headers = { 'accept-encoding': accept };
      const response = await good(path, { key, headers });
      expect(response.headers).toMatchObject({
        etag: expect.stringMatching(/^(W\/)?"[\x21\x23-\x7e]+"$/),
        'cache-control': 'private, no-cache',
        vary: 'accept-encoding, x-api-key',
        'content-type': 'application/json',
        'content-length': String(response.body.length),
      });
      await expectHeadAnd304(path, response, { key, headers });
    }
});

it.each(['/docs', '/openapi.json'])('HEAD and 304 of %s have the headers of GET', async (path) => {
  await expectHeadAnd304(path, await good(path), {});
});

/** Fails unless HEAD has all headers of this GET, and 304 all but those of a body. */
async function expectHeadAnd304(path: string, got: HttpResponse, options: RequestOptions): Promise<void> {
  const head = await good(path, { ...options, method: 'HEAD' });
  expect([head.text, comparableHeaders(head)]).toEqual(['', comparableHeaders(got)]);
  const headers = { ...options.headers, 'if-none-match': tagOf(got) };
  for (const method of ['GET', 'HEAD']) {
    const same = await service.get(path, { ...options, method, headers });
    expect([same.status, same.text]).toEqual([304, '']);
    expect(comparableHeaders(same, 'content-length')).toEqual(
      comparableHeaders(got, 'content-length', 'content-type'),
    );
  }
}

it('HEAD leaves the connection synchronised, and each header comes once', async () => {
  const request = (method: string, last = '') =>
    `${method} /hotels/small HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n${last}\r\n`;
  await good('/hotels/small');
  const text = await service.raw(request('HEAD') + request('HEAD') + request('GET', 'Connection: close\r\n'));
  expect(text.match(/HTTP\/1\.1 200 /g)).toHaveLength(3);
  expect(text.match(/"id":"small"/g)).toHaveLength(1);
  const lines = text.toLowerCase().split('\r\n\r\n').at(-2)!.split('\r\n').slice(1);
  expect(new Set(lines.map((line) => line.split(':')[0])).size).toBe(lines.length);
  expect(lines).toContain('connection: close');
});

it.each(['/hotels', '/hotels?limit=1', '/hotels/small', '/hotels/large', '/hotels/channel/CH-small'])(
  'the tag differs between keys that receive different bytes: %s',
  async (path) => {
    const [full, narrow] = [await good(path), await good(path, { key: 'narrow' })];
    expect(full.text).not.toBe(narrow.text);
    expect(tagOf(full)).not.toBe(tagOf(narrow));
    const headers = { 'if-none-match': tagOf(full) };
    expect((await service.get(path, { key: 'narrow', headers })).status).toBe(200);
  },
);

it('a change shows in each coding, and with another tag; so does a deletion', async () => {
  await service.insert({ id: '!a', description: LONG });
  const paths = ['/hotels/!a', '/hotels?limit=1'];
  for (const name of ['one', 'two']) {
    const tags = await Promise.all(paths.map(async (path) => tagOf(await service.get(path))));
    await service.sql`update hotels set name = ${name} where id = '!a'`;
    for (const [i, path] of paths.entries()) {
      const since = async () => (await service.get(path, { headers: { 'if-none-match': tags[i]! } })).text;
      await expect.poll(since).toContain(`"name":"${name}"`);
      for (const coding of CODINGS) {
        const { body } = await good(path, { headers: { 'accept-encoding': coding } });
        expect(DECODERS[coding](body).toString()).toContain(`"name":"${name}"`);
      }
    }
  }
  await service.sql`delete from hotels where id = '!a'`;
  const headers = { 'accept-encoding': 'gzip' };
  await expect.poll(async () => (await service.get('/hotels/!a', { headers })).status).toBe(404);
  await expect.poll(async () => (await good('/hotels?limit=1')).text).not.toContain('"!a"');
});

describe('If-None-Match', () => {
  it.each<[claim: string, status: number, (tag: string) => string]>([
    ['the tag', 304, (tag) => tag],
    ['a list with the tag as a weak tag', 304, (tag) => `"a", W/${tag.replace('W/', '')}, "b"`],
    ['anything', 304, () => '*'],
    ['the tag behind a longer one', 304, (tag) => `${tag.slice(0, -1)}d", ${tag}`],
    ['a longer tag', 200, (tag) => `${tag.slice(0, -1)}d"`],
    ['the end of a longer tag', 200, (tag) => `"x${tag.slice(tag.indexOf('"') + 1)}`],
    ['a part of the tag', 200, (tag) => `${tag.slice(0, -2)}"`],
    ['the tag without quotes', 200, (tag) => tag.replaceAll('"', '')],
  ])('with %s results in %s', async (_, status, condition) => {
    for (const path of ['/hotels/small', '/hotels/large', '/hotels', '/hotels/suffix']) {
      const plain = await good(path);
      const response = await service.get(path, { headers: { 'if-none-match': condition(tagOf(plain)) } });
      expect([response.status, response.text]).toEqual([status, status === 304 ? '' : plain.text]);
    }
  });

  it('does not bypass checks of the key, the scope, the values and the existence of the hotel', async () => {
    const tag = tagOf(await good('/hotels/registry/500001'));
    for (const condition of ['*', tag]) {
      const headers = { 'if-none-match': condition };
      const status = async (path: string, key?: string) => (await service.get(path, { key, headers })).status;
      expect(await status('/hotels/small', 'none')).toBe(401);
      expect(await status('/hotels', 'nonsense')).toBe(401);
      expect(await status('/hotels/registry/500001', 'narrow')).toBe(403);
      expect(await status('/hotels?registry_id=500001', 'narrow')).toBe(403);
      expect(await status('/hotels/registry/abc')).toBe(400);
      expect(await status('/hotels?limit=0')).toBe(400);
      expect(await status('/hotels/nowhere')).toBe(404);
    }
  });
});

describe('x-request-id', () => {
  const MADE = /^[A-Za-z0-9._-]{8,64}$/;
  const idFor = async (path: string, id: string, key = 'full') =>
    (await service.get(path, { key, headers: { 'x-request-id': id } })).headers['x-request-id'];

  it.each(['a', '7f0c4b1e-6b0f-4a3c-9d25-0e6f4f0a2b11', '7f3c-_.~+/=:@Z', 'x'.repeat(128)])(
    'is echoed if it is well-formed: %s',
    async (id) => {
      for (const path of ['/hotels/small', '/hotels', '/hotels/nowhere', '/nowhere'])
        expect(await idFor(path, id)).toBe(id);
      expect(await idFor('/hotels', id, 'none')).toBe(id);
      const headers = { 'x-request-id': id };
      const batch = await service.post(BATCH, { channel_ids: [] }, { headers });
      expect(batch.headers['x-request-id']).toBe(id);
    },
  );

  it.each([
    ...['', 'a b', 'a;b', 'a,b', "a'b", '%0a', 'x'.repeat(129), '"quoted"', 'a\tb', 'é', '<script>'],
    ...['a\u00a0b', '{"a":1}'],
  ])('is replaced if it is malformed: %j', async (id) => {
    const made = await idFor('/hotels/small', id);
    expect(made).not.toBe(id);
    expect(made).toMatch(MADE);
  });
});

describe('compression', () => {
  const LARGE = ['/hotels/large', '/hotels', '/hotels/channel/CH-large', '/hotels/registry/500002'];
  const SMALL = ['/hotels/small', '/hotels?limit=1', '/hotels?offset=1000'];
  const encodingOf = async (path: string, accept?: string) =>
    (await good(path, accept === undefined ? {} : { headers: { 'accept-encoding': accept } })).headers[
      'content-encoding'
    ] ?? 'identity';

  it.each(CODINGS)('by %s preserves the bytes, at the first and at later requests', async (coding) => {
    const headers = { 'accept-encoding': coding };
    for (const path of LARGE)
      for (const key of keysFor(path)) {
        const plain = await good(path, { key });
        for (let round = 0; round < 3; round++)
          expectPacked(await good(path, { key, headers }), coding, plain.body);
      }
    const body = { channel_ids: ['CH-large', 'CH-small'] };
    const plain = await service.post(BATCH, body);
    expect(plain.headers).toMatchObject({ vary: 'accept-encoding, x-api-key' });
    expect(plain.headers).not.toHaveProperty('content-encoding');
    expectPacked(await service.post(BATCH, body, { headers }), coding, plain.body);
  });

  function expectPacked({ headers, body }: HttpResponse, coding: Coding, plain: Buffer): void {
    expect(headers).toMatchObject({
      'content-encoding': coding,
      'content-type': 'application/json',
      'content-length': String(body.length),
      vary: 'accept-encoding, x-api-key',
    });
    expect(body.length).toBeLessThan(plain.length);
    expect(DECODERS[coding](body).equals(plain)).toBe(true);
  }

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
    for (const path of [...LARGE, ...SMALL]) expect(await encodingOf(path)).toBe('identity');
  });

  // src/http/compression.test.ts has every form of the header
  it.each([
    ['gzip, deflate, br, zstd', 'zstd'],
    ['gzip;q=0.2, br;q=0.9, zstd;q=0.5', 'br'],
    ['br;q=0, gzip', 'gzip'],
    ['*', 'gzip'],
    ['identity;q=1, gzip;q=0.5', 'identity'],
    ['deflate', 'identity'],
    ['\u00e9', 'identity'],
  ])('responds to Accept-Encoding "%s" with %s', async (accept, expected) => {
    expect(await encodingOf('/hotels/large', accept)).toBe(expected);
  });

  it('does not apply to errors, and to nothing with COMPRESSION=off', async () => {
    const headers = { 'accept-encoding': 'gzip, br, zstd' };
    expect((await service.get('/hotels/nowhere', { headers })).text).toBe('{"error":"Hotel not found"}');
    const hotels = [{ id: 'a', channel_id: 'CH-a', description: LONG }];
    const plain = await startService({ hotels, redis: false, env: { COMPRESSION: 'off' } });
    const answers = ['/hotels/a', '/hotels', '/openapi.json'].map((path) => plain.get(path, { headers }));
    answers.push(plain.post(BATCH, { channel_ids: ['CH-a'] }, { headers }));
    for (const { status, headers: got } of await Promise.all(answers))
      expect([status, got['content-encoding']]).toEqual([200, undefined]);
    await plain.stop();
  });
});

it('no response permits a page of another origin to read it', async () => {
  const headers = {
    origin: 'https://elsewhere.example',
    'access-control-request-method': 'GET',
    'access-control-request-headers': 'x-api-key',
  };
  for (const path of [...READS, BATCH, '/nowhere', '/docs', '/openapi.json'])
    for (const method of ['GET', 'HEAD', 'OPTIONS']) {
      const response = await service.get(path, { method, headers });
      expect(Object.keys(response.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
});
