import { beforeAll, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import type { RequestOptions } from '../support/client.ts';
import { ApiDocument } from '../support/openapi.ts';
import { exampleRows, insertKey } from '../support/rows.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

const BATCH = '/hotels/batch';
const CHANNEL = '/hotels/channel/batch';
const REGISTRY = '/hotels/registry/batch';
/** Every read, with results. */
const READS = [
  '/hotels',
  '/hotels?limit=1',
  '/hotels?limit=1&offset=1',
  '/hotels?offset=100',
  '/changes',
  '/changes?limit=1',
  '/key',
  '/hotels/htl_sliji9ej',
  '/hotels/channel/CH100011',
  '/hotels/full',
];
/** Each operation with GET. */
const EACH_GET = ['/hotels', '/changes', '/key', '/hotels/a', '/hotels/channel/a', '/hotels/registry/1'];
const SCOPED_READS = ['/hotels/registry/500011', '/hotels?registry_id=500011', '/hotels?registry_id=1'];

let service: Service;
let document: ApiDocument;

beforeAll(async () => {
  service = await startService({
    // every request requires PostgreSQL, so every request is affected when it is unavailable
    redis: false,
    env: { L1_MAX_BYTES: '0' },
    hotels: [
      ...exampleRows(),
      {
        id: 'full',
        star_rating: 4.5,
        email: 'reception@example.com',
        registry_id: '9007199254740991',
        channel_id: 'x'.repeat(255),
        images: [1, 2, 3].map((at) => ({ url: `https://cdn.example.com/${at}.jpg`, caption: 'A view' })),
        description: 'Ein Haus am See. '.repeat(200),
      },
    ],
  });
  document = new ApiDocument((await service.get('/openapi.json', { key: 'none' })).text);
});

async function get(
  path: string,
  status: number,
  { body, ...options }: RequestOptions & { body?: string } = {},
): Promise<void> {
  const response =
    body === undefined
      ? await service.get(path, options)
      : await service.post(path, body, { method: 'GET', ...options });
  expect([path, response.status], response.text).toEqual([path, status]);
  document.check(options.method ?? 'GET', path, response);
}

async function post(
  path: string,
  body: string | Buffer | object,
  status: number,
  options: RequestOptions = {},
) {
  const response = await service.post(path, body, options);
  expect([path, response.status]).toEqual([path, status]);
  document.check('POST', path, response);
}

/** Sends each operation once. */
async function all(status: number, options: RequestOptions = {}): Promise<void> {
  for (const path of EACH_GET) await get(path, status, options);
  await post(BATCH, { ids: ['a'] }, status, options);
  await post(CHANNEL, { channel_ids: ['a'] }, status, options);
  await post(REGISTRY, { registry_ids: [1] }, status, options);
}

it('covers successful and unchanged responses', async () => {
  for (const path of [...READS, ...SCOPED_READS]) {
    for (const key of ['full', 'narrow']) {
      if (key === 'narrow' && SCOPED_READS.includes(path)) continue;
      await get(path, 200, { key });
      await get(path, 200, { key, method: 'HEAD' });
      await get(path, 304, { key, headers: { 'if-none-match': '*' } });
    }
  }
  for (const key of ['full', 'narrow']) {
    await post(BATCH, { ids: ['full', 'nobody'] }, 200, { key });
    await post(CHANNEL, { channel_ids: [] }, 200, { key });
    await post(CHANNEL, { channel_ids: ['CH100011', 'x'.repeat(255), 'nobody'] }, 200, { key });
  }
  await post(REGISTRY, { registry_ids: [500011, '500005', '9007199254740991', -7] }, 200);
  await get('/hotels', 200, { headers: { 'x-request-id': 'my-own.name:1' } });
});

it('covers the headers of compressed responses', async () => {
  for (const coding of ['gzip', 'br', 'zstd'])
    await get('/hotels/full', 200, { method: 'HEAD', headers: { 'accept-encoding': coding } });
});

it('covers rejected requests', async () => {
  await all(401, { key: 'none' });
  for (const path of SCOPED_READS) await get(path, 403, { key: 'narrow' });
  await post(REGISTRY, { registry_ids: [1] }, 403, { key: 'narrow' });
  for (const query of ['limit=0', 'limit=1001', 'wait=31', 'after=x']) await get(`/changes?${query}`, 400);
  for (const query of ['limit=0', 'limit=101', 'limit=x', 'offset=-1', 'registry_id=1.5'])
    await get(`/hotels?${query}`, 400);
  await get('/hotels/registry/1e3', 400);
  for (const path of ['/hotels/nobody', '/hotels/channel/nobody', '/hotels/registry/1']) await get(path, 404);

  const tooMany = Array.from({ length: 1001 }, () => '1');
  for (const body of ['{', '[]', { ids: [1] }, { ids: tooMany }]) await post(BATCH, body, 400);
  for (const body of ['{', '[]', { channel_ids: [1] }, { channel_ids: tooMany }])
    await post(CHANNEL, body, 400);
  for (const body of ['{', '[]', { registry_ids: [true] }, { registry_ids: tooMany }])
    await post(REGISTRY, body, 400);
  for (const path of [BATCH, CHANNEL, REGISTRY]) await post(path, Buffer.alloc(1024 * 1024 + 1, ' '), 413);
});

/** Creates a key that may send this many requests an hour. */
async function limitedKey(requests: number, scopes: string[]): Promise<string> {
  const key = await insertKey(service.sql, scopes);
  await service.sql`update api_keys set rate_limit_requests = ${requests}, rate_limit_window_s = 3600
    where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
  await expect
    .poll(async () => (await service.get('/hotels', { key })).headers['ratelimit-policy'])
    .toBe(`"default";q=${requests};w=3600`);
  return key;
}

it('covers the headers of a rate limit, for any response', async () => {
  const [key, narrow] = [await limitedKey(1000, ['registry']), await limitedKey(1000, [])];
  const ifNoneMatch = { headers: { 'if-none-match': '*' } };
  for (const path of [
    '/hotels',
    '/changes',
    '/key',
    '/hotels/full',
    '/hotels/channel/CH100011',
    '/hotels/registry/500011',
  ]) {
    await get(path, 200, { key });
    await get(path, 304, { key, ...ifNoneMatch });
  }
  await post(BATCH, { ids: ['full'] }, 200, { key });
  await post(CHANNEL, { channel_ids: ['CH100011'] }, 200, { key });
  await post(REGISTRY, { registry_ids: [500011] }, 200, { key });
  for (const path of ['/hotels/nobody', '/hotels/channel/nobody', '/hotels/registry/1'])
    await get(path, 404, { key });
  for (const path of ['/hotels?limit=0', '/changes?limit=0', '/hotels/registry/x'])
    await get(path, 400, { key });
  await post(CHANNEL, '{', 400, { key });
  await post(REGISTRY, Buffer.alloc(1024 * 1024 + 1, ' '), 413, { key });
  for (const path of SCOPED_READS) await get(path, 403, { key: narrow });
});

it('covers requests without a valid host', async () => {
  await all(400, { headers: { host: 'a b' } });
});

it('covers faults in the body of a request', async () => {
  for (const path of EACH_GET) await get(path, 400, { body: 'x' });
  const twice = { headers: { 'content-length': ['2', '2'] as never } };
  const cutShort = { headers: { 'content-length': 100 } };
  const packed = { headers: { 'content-encoding': 'gzip' } };
  for (const path of [BATCH, CHANNEL, REGISTRY]) {
    await post(path, '{}', 400, twice);
    await post(path, '{}', 415, packed);
  }
  await Promise.all([BATCH, CHANNEL, REGISTRY].map((path) => post(path, '{}', 408, cutShort)));
});

it('covers requests beyond the rate limit of a key', async () => {
  const key = await limitedKey(1, ['registry']);
  await expect.poll(async () => (await service.get('/hotels', { key })).status).toBe(429);
  await all(429, { key });
});

it('covers the changes after a token, and an expired token', async () => {
  const path = `/changes?after=${(await service.get('/changes')).json().next}`;
  await service.sql`update hotels set room_count = 1 where id = 'full'`;
  await expect.poll(async () => (await service.get(path)).text).toContain('"room_count":1');
  await get(path, 200);
  await service.sql`select hotel_api_invalidate()`;
  await expect.poll(async () => (await service.get(path)).status).toBe(410);
  await get(path, 410);
});

it('covers failures of the service', async () => {
  await service.sql`revoke select on hotels, collections from hotel_api_serve`;
  try {
    await all(500);
  } finally {
    await service.sql`grant select on hotels, collections to hotel_api_serve`;
  }
  const patient = service;
  const env = { L1_MAX_BYTES: '0', DATABASE_TIMEOUT_MS: '200' };
  service = await startBeside(patient, { redis: false, env });
  await patient.sql.begin(async (sql) => {
    await sql`lock table hotels, collections in access exclusive mode`;
    await all(503);
  });
});

it('was covered completely: every status and every message of the document occurred', () => {
  const documented = document.operations().flatMap(({ operation }) =>
    Object.entries<{
      content?: { 'application/json': { examples?: Record<string, { value: { error: string } }> } };
    }>(operation.responses).flatMap(([status, { content }]) => [
      `${operation.operationId} ${status}`,
      ...(Number(status) < 400
        ? []
        : Object.values(content?.['application/json'].examples ?? {}).map(
            ({ value }) => `${operation.operationId} ${status} ${value.error}`,
          )),
    ]),
  );
  const unseen = documented.filter((each) => !document.seen.has(each));
  expect(unseen).toEqual([]);
  const undocumented = [...document.seen].filter((each) => !documented.includes(each));
  expect(undocumented).toEqual([]);
});
