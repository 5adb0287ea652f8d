import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { publicErrors } from '../../src/errors.ts';
import type { HttpResponse, RequestOptions } from '../support/client.ts';
import { insertKey } from '../support/key.ts';
import { type Service, startService } from '../support/service.ts';

const CHANNEL = '/hotels/channel/batch';
const REGISTRY = '/hotels/registry/batch';
const MIB = 1024 * 1024;

let service: Service;
const seen = new Set<string>();

beforeAll(async () => {
  const hotels = [{ id: 'h1', channel_id: 'CH-1', registry_id: 500001 }];
  service = await startService({ hotels, env: { DATABASE_TIMEOUT_MS: '2000' } });
});

/** Fails unless the response has this code, and the headers that its status requires. */
function expectCode(response: HttpResponse, status: number, code: string): void {
  expect([response.status, response.headers['x-error-code']]).toEqual([status, code]);
  expect(response.headers['www-authenticate']).toBe(status === 401 ? 'ApiKey' : undefined);
  expect(response.headers['accept-encoding']).toBe(status === 415 ? 'identity' : undefined);
  seen.add(code);
}

async function expectReadCode(path: string, status: number, code: string, options: RequestOptions = {}) {
  for (const method of ['GET', 'HEAD'])
    expectCode(await service.get(path, { ...options, method }), status, code);
}

describe('x-error-code', () => {
  it.each([
    ['/nowhere', 404, 'path_not_found'],
    ['/hotels/', 404, 'path_not_found'],
    ['/hotels/nowhere', 404, 'hotel_not_found'],
    ['/hotels/channel/nowhere', 404, 'hotel_not_found'],
    ['/hotels/%ff', 404, 'hotel_not_found'],
    ['/hotels/registry/1', 404, 'hotel_not_found'],
    ['/hotels/registry/1.5', 400, 'registry_id_not_integer'],
    ['/hotels?registry_id=x', 400, 'registry_id_not_integer'],
    ['/hotels?limit=0', 400, 'limit_out_of_bounds'],
    ['/hotels?offset=-1', 400, 'offset_out_of_bounds'],
    ['/changes?limit=0', 400, 'changes_limit_out_of_bounds'],
    ['/changes?wait=31', 400, 'wait_out_of_bounds'],
    ['/changes?after=x', 400, 'after_not_token'],
  ])('of GET and HEAD %s is %s %s', async (path, status, code) => {
    await expectReadCode(path, status, code);
  });

  it('distinguishes a missing key from a missing scope', async () => {
    for (const path of ['/hotels', '/hotels/h1', '/hotels/registry/1']) {
      await expectReadCode(path, 401, 'unauthorized', { key: 'none' });
      await expectReadCode(path, 401, 'unauthorized', { key: 'nonsense' });
    }
    expectCode(await service.post(CHANNEL, { channel_ids: [] }, { key: 'none' }), 401, 'unauthorized');
    await expectReadCode('/hotels/registry/1', 403, 'forbidden', { key: 'narrow' });
    await expectReadCode('/hotels?registry_id=x', 403, 'forbidden', { key: 'narrow' });
    expectCode(await service.post(REGISTRY, '{', { key: 'narrow' }), 403, 'forbidden');
  });

  it('accompanies the allowed methods', async () => {
    for (const method of ['DELETE', 'PUT', 'OPTIONS']) {
      const response = await service.get('/hotels', { method });
      expectCode(response, 405, 'method_not_allowed');
      expect(response.headers.allow).toBe('GET, HEAD');
    }
  });

  it.each([
    [CHANNEL, '{', 'body_not_json', undefined],
    [CHANNEL, '[]', 'channel_ids_missing', undefined],
    [CHANNEL, '{"channel_ids":["a",1,true]}', 'channel_id_not_string', '1'],
    [CHANNEL, '{"channel_ids":[null]}', 'channel_id_not_string', '0'],
    [CHANNEL, { channel_ids: new Array(1001).fill('a') }, 'too_many_channel_ids', undefined],
    [REGISTRY, '[]', 'registry_ids_missing', undefined],
    [REGISTRY, '{"registry_ids":[1,"2",3.0,"x",1.5]}', 'registry_id_not_integer', '3'],
    [REGISTRY, '{"registry_ids":[{}],"registry_ids":[5,5,1.5]}', 'registry_id_not_integer', '2'],
    [REGISTRY, `{"registry_ids":[${'1,'.repeat(999)}null]}`, 'registry_id_not_integer', '999'],
    [REGISTRY, { registry_ids: new Array(1001).fill(1) }, 'too_many_registry_ids', undefined],
  ])('of POST %s with %j is %s, at the element %s', async (path, body, code, position) => {
    // the second request finds its id in the cache
    for (let round = 0; round < 2; round++) {
      const response = await service.post(path, body);
      expectCode(response, 400, code);
      expect(response.headers['x-error-position']).toBe(position);
    }
  });

  it('is present on responses to bodies that are not read', async () => {
    expectCode(await service.post(CHANNEL, Buffer.alloc(MIB + 1, ' ')), 413, 'body_too_large');
    for (const method of ['GET', 'HEAD'])
      expectCode(await service.post('/hotels/h1', 'x', { method }), 400, 'body_not_allowed');
    const twice = { headers: { 'content-length': ['2', '2'] as never } };
    expectCode(await service.post(CHANNEL, '{}', twice), 400, 'framing_ambiguous');
  });

  it('is present on rate-limited responses', async () => {
    const key = await insertKey(service.sql, []);
    await service.sql`update api_keys set rate_limit_requests = 1, rate_limit_window_s = 3600
      where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
    await expect.poll(async () => (await service.get('/hotels', { key })).status).toBe(429);
    await expectReadCode('/hotels/h1', 429, 'too_many_requests', { key });
    expectCode(await service.post(CHANNEL, '{', { key }), 429, 'too_many_requests');
  });

  it('is absent from successful responses', async () => {
    const { headers } = await service.get('/hotels/h1');
    for (const answer of [
      headers,
      (await service.get('/hotels/h1', { headers: { 'if-none-match': headers.etag } })).headers,
      (await service.post(CHANNEL, { channel_ids: ['CH-1'] })).headers,
      (await service.get('/docs', { key: 'none' })).headers,
    ])
      expect(Object.keys(answer).filter((name) => name.startsWith('x-error'))).toEqual([]);
  });
});

describe('a request body with Content-Encoding', () => {
  it.each(['gzip', 'br', 'x-unknown', 'gzip, br'])(
    '%s receives 415 and the accepted coding',
    async (coding) => {
      for (const path of [CHANNEL, REGISTRY]) {
        const headers = { 'content-encoding': coding };
        const response = await service.post(path, '{"channel_ids":[],"registry_ids":[]}', { headers });
        expectCode(response, 415, 'content_encoding_not_supported');
        expect(response.text).toBe('{"error":"Request body must be sent without Content-Encoding"}');
      }
    },
  );

  it('is checked after the key and the scope', async () => {
    const headers = { 'content-encoding': 'gzip' };
    expectCode(await service.post(CHANNEL, 'x', { headers, key: 'none' }), 401, 'unauthorized');
    expectCode(await service.post(REGISTRY, 'x', { headers, key: 'narrow' }), 403, 'forbidden');
  });

  it('receives 415 with an unknown key, and in chunks', async () => {
    const key = await insertKey(service.sql, []);
    const headers = { 'content-encoding': 'gzip' };
    expectCode(await service.post(CHANNEL, 'x', { headers, key }), 415, 'content_encoding_not_supported');
    const head = `POST ${CHANNEL} HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n`;
    const chunked = `${head}Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n`;
    expect((await service.raw(chunked)).toString()).toMatch(
      /^HTTP\/1\.1 415 Unsupported Media Type\r\n.*\r\nx-error-code: content_encoding_not_supported\r\n/s,
    );
  });

  it.each(['identity', 'Identity', ''])('"%s" is read without decoding', async (coding) => {
    const headers = { 'content-encoding': coding };
    expect((await service.post(CHANNEL, { channel_ids: ['CH-1'] }, { headers })).status).toBe(200);
  });
});

// last, because the circuit breaker stays open for a while
it('x-error-code is present on failures of the service', async () => {
  await service.sql`revoke select on hotels from hotel_api_serve`;
  try {
    await expectReadCode('/hotels/never-asked', 500, 'internal');
    expectCode(await service.post(CHANNEL, { channel_ids: ['never'] }), 500, 'internal');
  } finally {
    await service.sql`grant select on hotels to hotel_api_serve`;
  }
  await service.sql.begin(async (sql) => {
    await sql`lock table hotels in access exclusive mode`;
    await expectReadCode('/hotels/never-asked-again', 503, 'unavailable');
    const batch = await service.post(CHANNEL, { channel_ids: ['never'] });
    expectCode(batch, 503, 'unavailable');
    expect(batch.headers['retry-after']).toBe('1');
  });
});

it('every code of the table was received', () => {
  const codes = Object.values(publicErrors).map(({ code }) => code);
  // of a token older than the retention, and of a body that does not end: other tests wait for these
  expect(codes.filter((code) => !seen.has(code)).sort()).toEqual(['body_too_slow', 'token_expired']);
});

it.each([
  [431, `GET /hotels HTTP/1.1\r\nhost: x\r\nx-long: ${'a'.repeat(5000)}\r\n\r\n`],
  [505, 'GET /hotels HTTP/1.0\r\nhost: x\r\n\r\n'],
])('the HTTP library writes %d itself, without a code, as the guide says', async (status, request) => {
  const answer = (await service.raw(request)).toString();
  expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(answer).not.toContain('x-error-code');
});
