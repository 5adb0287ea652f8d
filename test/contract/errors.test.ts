import { expect, it } from 'vitest';
import { publicErrors } from '../../src/errors.ts';
import { CODINGS, type HttpResponse, type RequestOptions } from '../support/client.ts';
import { ApiDocument } from '../support/openapi.ts';
import { changeKey, exampleRow, insertKey } from '../support/rows.ts';
import { startBeside, startService } from '../support/service.ts';

const BATCH = '/hotels/batch';
const CHANNEL = '/hotels/channel/batch';
const REGISTRY = '/hotels/registry/batch';
const POSTS = [BATCH, CHANNEL, REGISTRY];
const MIB = 1024 * 1024;

/** Status and sentence of each code, as the specification and the contract have them. */
const ERRORS = {
  registry_id_not_integer: [400, 'registry_id must be an integer'],
  limit_out_of_bounds: [400, 'limit must be an integer from 1 to 100'],
  offset_out_of_bounds: [400, 'offset must be an integer of at least 0'],
  changes_limit_out_of_bounds: [400, 'limit must be an integer from 1 to 1000'],
  wait_out_of_bounds: [400, 'wait must be an integer from 0 to 30'],
  after_not_token: [400, 'after must be a token that this API gave'],
  body_not_json: [400, 'Request body must be valid JSON'],
  ids_missing: [400, 'Request body must include an `ids` array'],
  channel_ids_missing: [400, 'Request body must include a `channel_ids` array'],
  registry_ids_missing: [400, 'Request body must include a `registry_ids` array'],
  id_not_string: [400, 'ids must hold strings only'],
  channel_id_not_string: [400, 'channel_ids must hold strings only'],
  too_many_ids: [400, 'ids must hold at most 1000 ids'],
  too_many_channel_ids: [400, 'channel_ids must hold at most 1000 ids'],
  too_many_registry_ids: [400, 'registry_ids must hold at most 1000 ids'],
  body_not_allowed: [400, 'GET requests must not carry a body'],
  host_invalid: [400, 'Request must name its host in one valid Host header'],
  framing_ambiguous: [400, 'Request must state in one way where its body ends'],
  unauthorized: [401, 'Unauthorized'],
  forbidden: [403, 'Forbidden'],
  hotel_not_found: [404, 'Hotel not found'],
  path_not_found: [404, 'Not found'],
  method_not_allowed: [405, 'Method not allowed'],
  body_too_slow: [408, 'Request body arrived too slowly'],
  token_expired: [410, 'The token has expired: begin again without after'],
  body_too_large: [413, 'Request body must be at most 1 MiB'],
  content_encoding_not_supported: [415, 'Request body must be sent without Content-Encoding'],
  too_many_requests: [429, 'Too many requests'],
  internal: [500, 'Internal server error'],
  unavailable: [503, 'Service unavailable'],
} as const;
type Code = keyof typeof ERRORS;

type Sent = [method: string, path: string, body?: string | Buffer | object];

const seen = new Set<string>();
const full = {
  ...{ id: 'full', star_rating: 4.5, email: 'reception@example.com', channel_id: 'x'.repeat(255) },
  registry_id: '9007199254740991',
  images: [1, 2, 3].map((at) => ({ url: `https://cdn.example.com/${at}.jpg`, caption: 'A view' })),
  description: 'Ein Haus am See. '.repeat(200),
};
let service = await startService({
  // every request requires PostgreSQL, so every request is affected when it is unavailable
  redis: false,
  env: { L1_MAX_BYTES: '0' },
  hotels: [{ id: 'h1', channel_id: 'CH-1', registry_id: 500001 }, exampleRow(), full],
});
const document = new ApiDocument((await service.get('/openapi.json', { key: 'none' })).text);
const cutShort = { headers: { 'content-length': 100 } };
/** Responses to bodies that do not end, for which the service waits for 7 s. */
const slow = Promise.all(POSTS.map((path) => send(['POST', path, '{}'], cutShort)));

/** Compares every response with the document of the API. */
async function send([method, path, body]: Sent, options: RequestOptions = {}): Promise<HttpResponse> {
  const response =
    body === undefined
      ? await service.get(path, { method, ...options })
      : await service.post(path, body, { method, ...options });
  if (document.find(method, path)) document.check(method, path, response);
  return response;
}

/** Fails unless the response has this code, with its sentence in the common form, and the headers that its status requires. */
function expectCode(response: HttpResponse, code: Code, method = 'GET'): void {
  const [status, sentence] = ERRORS[code];
  const { headers } = response;
  expect([response.status, headers['x-error-code'], headers['content-type']]).toEqual([
    ...[status, code, 'application/json'],
  ]);
  const body = JSON.stringify({ error: sentence });
  expect(response.text).toBe(method === 'HEAD' ? '' : body);
  expect(headers['content-length']).toBe(String(body.length));
  expect(headers['www-authenticate']).toBe(status === 401 ? 'ApiKey' : undefined);
  expect(headers['accept-encoding']).toBe(status === 415 ? 'identity' : undefined);
  expect(headers['retry-after']).toEqual([429, 503].includes(status) ? expect.any(String) : undefined);
  seen.add(code);
}

/** For a GET, HEAD too. */
async function expectRejected(sent: Sent, code: Code, options: RequestOptions = {}): Promise<void> {
  expectCode(await send(sent, options), code);
  const [method, path, body] = sent;
  if (method === 'GET') expectCode(await send(['HEAD', path, body], options), code, 'HEAD');
}

/** Sends each operation once. */
async function expectAllRejected(code: Code, options: RequestOptions = {}): Promise<void> {
  for (const { good } of OPERATIONS) await expectRejected(good, code, options);
}

/** A valid request, and requests with one fault that is judged after the key and the scope. */
interface Operation {
  good: Sent;
  isScoped: boolean;
  faults: [Code, Sent][];
}

function batchOf(
  path: string,
  name: 'ids' | 'channel_ids' | 'registry_ids',
  id: string | number,
  wrong: Code,
): Operation {
  return {
    good: ['POST', path, { [name]: [id] }],
    isScoped: name === 'registry_ids',
    faults: [
      ['body_not_json', ['POST', path, '{']],
      ['body_not_json', ['POST', path, '']],
      ['body_too_large', ['POST', path, Buffer.alloc(MIB + 1, ' ')]],
      [`${name}_missing`, ['POST', path, '{}']],
      [wrong, ['POST', path, { [name]: ['abc', 1.5] }]],
      [`too_many_${name}`, ['POST', path, { [name]: new Array(1001).fill(id) }]],
    ],
  };
}

const getOf = (path: string, isScoped: boolean, faults: [Code, string][]): Operation => ({
  good: ['GET', path],
  isScoped,
  faults: faults.map(([code, wrong]) => [code, ['GET', wrong]]),
});

const OPERATIONS = [
  getOf('/hotels', false, [
    ['limit_out_of_bounds', '/hotels?limit=0'],
    ['offset_out_of_bounds', '/hotels?offset=-1'],
  ]),
  getOf('/hotels?registry_id=500001', true, [
    ['registry_id_not_integer', '/hotels?registry_id=abc'],
    ['limit_out_of_bounds', '/hotels?limit=0&registry_id=500001'],
  ]),
  getOf('/hotels/h1', false, [
    ['hotel_not_found', '/hotels/nowhere'],
    ['hotel_not_found', '/hotels/%ff'],
  ]),
  getOf('/hotels/channel/CH-1', false, [['hotel_not_found', '/hotels/channel/batch']]),
  getOf('/hotels/registry/500001', true, [
    ['registry_id_not_integer', '/hotels/registry/abc'],
    ['registry_id_not_integer', '/hotels/registry/batch'],
    ['hotel_not_found', '/hotels/registry/1'],
  ]),
  batchOf(BATCH, 'ids', 'h1', 'id_not_string'),
  batchOf(CHANNEL, 'channel_ids', 'CH-1', 'channel_id_not_string'),
  batchOf(REGISTRY, 'registry_ids', 500001, 'registry_id_not_integer'),
  getOf('/key', false, []),
  getOf('/changes', false, [
    ['changes_limit_out_of_bounds', '/changes?limit=0'],
    ['wait_out_of_bounds', '/changes?wait=31'],
    ['after_not_token', '/changes?after=x'],
  ]),
];

it.each(OPERATIONS)(
  '$good judges the key, then the scope for any values, then the values, then the existence',
  async ({ good, isScoped, faults }) => {
    for (const [code, sent] of [[undefined, good] as const, ...faults]) {
      await expectRejected(sent, 'unauthorized', { key: 'none' });
      await expectRejected(sent, 'unauthorized', { key: 'nonsense' });
      if (isScoped) await expectRejected(sent, 'forbidden', { key: 'narrow' });
      for (const key of isScoped ? ['full'] : ['full', 'narrow'])
        if (code) await expectRejected(sent, code, { key });
        else expect((await send(sent, { key })).headers['x-error-code']).toBeUndefined();
    }
  },
);

it.each([
  ...['/', '/hotel', '/Hotels', '/hotels/', '/hotels/channel/', '/hotels/registry/', '/hotels/a/b'],
  ...['/hotels/channel/a/b', '/hotels/registry/1/2', '/hotels/channel/batch/x', '/v1/hotels'],
  ...['/hotels.json', '//hotels', '/metrics', '/livez', '/readyz', '/%68otels', '/hotels%2Fh1', '/__proto__'],
  ...['/*', `/${'x'.repeat(2_000)}`],
])('an unknown path has 404 for every method, with and without a key: %s', async (path) => {
  for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS'])
    for (const key of ['full', 'none'])
      await expectRejected([method, path, method === 'GET' ? undefined : '{}'], 'path_not_found', { key });
});

it.each([
  ...['/hotels', '/hotels/h1', '/hotels/nowhere', '/hotels/channel', '/hotels/registry', '/changes', '/key'],
  ...['/hotels/channel/CH-1', '/hotels/registry/500001', '/hotels/registry/abc', BATCH, CHANNEL, REGISTRY],
])('a method that is not allowed has 405 before the key is judged: %s', async (path) => {
  // "batch" is an id like any other, and a registry id that is not an integer
  const allowed = path.endsWith('batch') ? ['GET', 'HEAD', 'POST'] : ['GET', 'HEAD'];
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']) {
    if (allowed.includes(method)) continue;
    for (const key of ['full', 'none']) {
      const body = method === 'TRACE' ? undefined : '{"channel_ids":[]}';
      const response = await send([method, path, body], { key });
      expectCode(response, 'method_not_allowed');
      expect(String(response.headers.allow).split(/, */).sort()).toEqual(allowed);
    }
  }
});

// src/http/batch-body.test.ts has every kind of wrong element
it.each([
  [CHANNEL, '{"channel_ids":["a",1,true]}', '1'],
  [REGISTRY, '{"registry_ids":[{}],"registry_ids":[5,5,1.5]}', '2'],
  [REGISTRY, `{"registry_ids":[${'1,'.repeat(999)}null]}`, '999'],
  [BATCH, '{"ids":["a","a",7,null]}', '2'],
  [REGISTRY, '[]', undefined],
])('x-error-position of POST %s with %s is %s', async (path, body, position) => {
  expect((await service.post(path, body)).headers['x-error-position']).toBe(position);
});

it('responses to reads are as documented, whole, unchanged and compressed', async () => {
  const reads = ['/hotels', '/hotels?limit=1&offset=1', '/hotels?offset=100', '/changes?limit=1', '/key'];
  const singles = ['/hotels/full', '/hotels/htl_sliji9ej', '/hotels/channel/CH100011'];
  const scoped = ['/hotels/registry/500011', '/hotels?registry_id=500011', '/hotels?registry_id=1'];
  for (const [key, paths] of [
    ['full', [...reads, ...singles, ...scoped]],
    ['narrow', [...reads, ...singles]],
  ] as const)
    for (const path of paths) {
      for (const method of ['GET', 'HEAD']) expect((await send([method, path], { key })).status).toBe(200);
      expect((await send(['GET', path], { key, headers: { 'if-none-match': '*' } })).status).toBe(304);
    }
  for (const coding of CODINGS)
    await send(['HEAD', '/hotels/full'], { headers: { 'accept-encoding': coding } });
  const numbers = { registry_ids: [500011, '500005', '9007199254740991', -7] };
  expect((await send(['POST', REGISTRY, numbers])).json()).toHaveLength(2);
});

it('a body that is not read is rejected', async () => {
  for (const [method, path] of OPERATIONS.map(({ good }) => good))
    if (method === 'GET') await expectRejected([method, path, 'x'], 'body_not_allowed');
  const twice = { headers: { 'content-length': ['2', '2'] as never } };
  for (const path of POSTS) await expectRejected(['POST', path, '{}'], 'framing_ambiguous', twice);
});

it('a body that does not end is rejected', async () => {
  for (const response of await slow) expectCode(response, 'body_too_slow');
});

it('a request without a valid host is rejected, before its key is checked', async () => {
  const options = { headers: { host: 'a b' }, key: 'none' } as const;
  await expectAllRejected('host_invalid', options);
  for (const path of ['/docs', '/nowhere']) await expectRejected(['GET', path], 'host_invalid', options);
  await expectRejected(['DELETE', '/hotels/h1'], 'host_invalid', options);
});

async function limitedKey(requests: number, scopes: string[]): Promise<string> {
  const key = await insertKey(service.sql, scopes);
  await changeKey(service.sql, key, { rate_limit_requests: requests, rate_limit_window_s: 3600 });
  return key;
}

it('a key with a rate limit receives documented headers with any response', async () => {
  const [key, narrow] = [await limitedKey(1000, ['registry']), await limitedKey(1000, [])];
  for (const { good, isScoped, faults } of OPERATIONS) {
    for (const sent of [good, ...faults.map(([, fault]) => fault)]) await send(sent, { key });
    if (good[0] === 'GET') await send(good, { key, headers: { 'if-none-match': '*' } });
    const response = await send(good, { key: isScoped ? narrow : key });
    expect(response.headers['ratelimit-policy']).toBe('"default";q=1000;w=3600');
  }
});

it('a key beyond its rate limit is rejected', async () => {
  const key = await limitedKey(1, ['registry']);
  await expect.poll(async () => (await service.get('/hotels', { key })).status).toBe(429);
  await expectAllRejected('too_many_requests', { key });
  await expectRejected(['POST', CHANNEL, '{'], 'too_many_requests', { key });
});

it('a request body with a Content-Encoding but identity is rejected, after the key and the scope', async () => {
  const coded = (coding: string) => ({ headers: { 'content-encoding': coding } });
  for (const coding of ['gzip', 'x-unknown', 'gzip, br'])
    for (const path of POSTS)
      await expectRejected(['POST', path, '{}'], 'content_encoding_not_supported', coded(coding));
  await expectRejected(['POST', CHANNEL, 'x'], 'unauthorized', { ...coded('gzip'), key: 'none' });
  await expectRejected(['POST', REGISTRY, 'x'], 'forbidden', { ...coded('gzip'), key: 'narrow' });
  for (const coding of ['identity', 'Identity', ''])
    expect((await service.post(BATCH, { ids: ['h1'] }, coded(coding))).status).toBe(200);
});

it('changes after a token are as documented, and so is its expiry', async () => {
  const path = `/changes?after=${(await service.get('/changes')).json().next}`;
  await service.sql`update hotels set room_count = 1 where id = 'full'`;
  await expect.poll(async () => (await send(['GET', path])).text).toContain('"room_count":1');
  await service.sql`select hotel_api_invalidate()`;
  await expect.poll(async () => (await service.get(path)).status).toBe(410);
  await expectRejected(['GET', path], 'token_expired');
});

it('a failure of the service has 500, and an unavailable dependency 503', async () => {
  await service.sql`revoke select on hotels, collections from hotel_api_serve`;
  try {
    await expectAllRejected('internal');
  } finally {
    await service.sql`grant select on hotels, collections to hotel_api_serve`;
  }
  const patient = service;
  const env = { L1_MAX_BYTES: '0', DATABASE_TIMEOUT_MS: '200' };
  service = await startBeside(patient, { redis: false, env });
  await patient.sql.begin(async (sql) => {
    await sql`lock table hotels, collections in access exclusive mode`;
    await expectAllRejected('unavailable');
  });
});

it('every code, and every status and message of the document, was received', () => {
  const codes = Object.values(publicErrors).map(({ code }) => code);
  expect(codes.filter((code) => !seen.has(code))).toEqual([]);
  const documented = document.operations().flatMap(({ operation }) =>
    Object.entries<Described>(operation.responses).flatMap(([status, { content }]) => {
      const examples = Number(status) < 400 ? {} : content?.['application/json'].examples;
      const named = `${operation.operationId} ${status}`;
      return [named, ...Object.values(examples ?? {}).map(({ value }) => `${named} ${value.error}`)];
    }),
  );
  expect([...document.seen].sort()).toEqual(documented.sort());
});

interface Described {
  content?: { 'application/json': { examples?: Record<string, { value: { error: string } }> } };
}
