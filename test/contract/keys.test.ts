import { describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { createKey } from '../../src/cli/keys.ts';
import { AllWorkers, status as hasStatus } from '../support/all-workers.ts';
import { errorsIn } from '../support/log-lines.ts';
import { lacks } from '../support/needs.ts';
import { expectError } from '../support/responses.ts';
import { changeKey, insertCollection, insertKey } from '../support/rows.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

const noRedis = await lacks('redis');

const SHARED_LIMITS: Record<string, string> = noRedis ? {} : { RATE_LIMIT_SCOPE: 'redis' };

// two workers, because a change must be effective in both
const service = await startService({
  workers: 2,
  env: SHARED_LIMITS,
  hotels: [{ id: 'h1', channel_id: 'CH-1', registry_id: 500001 }],
});
const allWorkers = await AllWorkers.of(service);
await insertCollection(service.sql, 'alps');

it('a key is accepted until it expires, and rejected then', async () => {
  const key = await insertKey(service.sql, []);
  await changeKey(service.sql, key, { expires_at: new Date('9999-12-31') });
  await allWorkers.until('/hotels/h1', hasStatus(200), key);
  await service.sql`update api_keys set expires_at = now() + interval '1 s' where expires_at > '9000-01-01'`;
  // the column is not changed again: the time alone ends it
  await allWorkers.until('/hotels/h1', hasStatus(401), key);
});

it.each<[header: string, status: number]>([
  // any case, and whitespace around the value
  ['X-API-KEY: <key>', 200],
  ['x-Api-Key:<key>', 200],
  ['x-api-key:   <key>  ', 200],
  // the first of two counts
  ['x-api-key: <key>\r\nx-api-key: nonsense', 200],
  ['x-api-key: nonsense\r\nx-api-key: <key>', 401],
  ['x-api-key: \r\nX-Api-Key: <key>', 401],
  ['Authorization: Bearer <key>', 401],
  ['Cookie: x-api-key=<key>', 401],
])('a key in %j has %s', async (header, status) => {
  const head = `Host: a\r\n${header.replace('<key>', service.fullKey)}\r\nConnection: close\r\n\r\n`;
  expect(await service.raw(`GET /hotels/h1 HTTP/1.1\r\n${head}`)).toContain(`HTTP/1.1 ${status} `);
});

describe('GET /key', () => {
  it('returns the rights of a key without limits', async () => {
    const key = await insertKey(service.sql, []);
    const response = await service.get('/key', { key });
    expect([response.status, response.text]).toEqual([
      200,
      `{"id":"test-${hashOf(key).slice(0, 12)}","name":"test","scopes":[],"collection":null,"expires_at":null,"rate_limit":null}`,
    ]);
  });

  it('returns scopes, collection, expiry and rate limit, as they change, and never the key', async () => {
    const key = await insertKey(service.sql, ['registry'], 'alps');
    const text = async () => (await service.get('/key', { key })).text;
    const details = async () => JSON.parse(await text());
    expect(await details()).toMatchObject({
      scopes: ['registry'],
      collection: { id: 'alps', name: 'Collection' },
    });
    await changeKey(service.sql, key, {
      name: 'Ünïcode "x"',
      expires_at: '2100-01-31 12:00:00.5+01',
      rate_limit_requests: 600,
      rate_limit_window_s: 60,
      collection_id: 'gone',
    });
    await expect.poll(details).toMatchObject({
      name: 'Ünïcode "x"',
      scopes: ['registry'],
      collection: { id: 'gone', name: null },
      expires_at: '2100-01-31T11:00:00.500Z',
      rate_limit: { requests: 600, window_seconds: 60 },
    });
    expect(await text()).not.toContain(key);
    await service.sql`update api_keys set expires_at = 'infinity' where name = 'Ünïcode "x"'`;
    await expect.poll(async () => (await details()).expires_at).toBeNull();
  });
});

const made = (rateLimit: { requests: number; windowMs: number } | null) =>
  createKey(service.sql, { name: 'limited', scopes: [], expiresAt: null, rateLimit });

it('requests of any kind count against the limit of a key, and a 429 states the time to retry', async () => {
  const { key } = await made({ requests: 2, windowMs: 3_600_000 });
  const statuses: number[] = [];
  // a worker that waits long for its primary counts by itself for a while, and may reject the second
  while (!statuses.includes(429) && statuses.length < 3)
    statuses.push((await service.get('/key', { key })).status);
  expect(['200,200,429', '200,429']).toContain(statuses.join());
  for (const response of [
    await service.get('/key', { key }),
    await service.get('/hotels/registry/1', { key }),
    await service.post('/hotels/channel/batch', 'x'.repeat(300_000), { key }),
  ]) {
    expectError(response, 429, 'Too many requests');
    expect(response.headers['ratelimit-policy']).toBe('"default";q=2;w=3600');
    const [, reset] = /^"default";r=0;t=(\d+)$/.exec(String(response.headers.ratelimit))!;
    expect(response.headers['retry-after']).toBe(reset);
  }
  // unknown paths and wrong methods need no key, so they do not count
  expect((await service.get('/nowhere', { key })).status).toBe(404);
  const rejected = await service.metric('hotel_api_requests_rejected_total', { reason: 'rate_limit' });
  expect(rejected).toBeGreaterThan(0);
});

it('a limit that is set, changed or removed is effective in every worker', async () => {
  const { key } = await made(null);
  const policies = async () => {
    const responses = await Promise.all(Array.from({ length: 12 }, () => service.get('/hotels/h1', { key })));
    return new Set(responses.map(({ headers }) => String(headers['ratelimit-policy'])));
  };
  expect(await policies()).toEqual(new Set(['undefined']));
  for (const [limit, policy] of [
    [{ requests: 5_000, windowMs: 1_000 }, '"default";q=5000;w=1'],
    [{ requests: 9_000, windowMs: 60_000 }, '"default";q=9000;w=60'],
    [null, 'undefined'],
  ] as const) {
    await changeKey(service.sql, key, {
      rate_limit_requests: limit?.requests ?? null,
      rate_limit_window_s: limit && limit.windowMs / 1000,
    });
    await expect.poll(policies).toEqual(new Set([policy]));
  }
});

it.skipIf(noRedis)(
  'instances with RATE_LIMIT_SCOPE=redis share one limit, and apply it by themselves without Redis',
  async () => {
    const other = await startBeside(service, { env: SHARED_LIMITS });
    const alone = await startBeside(service, {
      env: { ...SHARED_LIMITS, REDIS_URL: 'redis://127.0.0.1:1' },
    });
    const { id, key } = await made({ requests: 40, windowMs: 3_600_000 });
    const status = async (at: Service) => (await at.get('/hotels/h1', { key })).status;
    await expect.poll(() => status(service)).toBe(429);
    expect(await status(alone)).toBe(200);
    await expect.poll(() => status(other)).toBe(429);
    const redis = service.redis!;
    const [name] = (await redis.keys(`*:l:3600000:${id}`)) as [string];
    expect(await redis.pttl(name)).toBeGreaterThan(0);
    // what is no number there has no effect on requests
    await redis.set(name, 'no number');
    expect([200, 429]).toContain(await status(other));
  },
);

it('no request caused an error in the log', () => {
  expect(errorsIn(service.logs())).toEqual([]);
});
