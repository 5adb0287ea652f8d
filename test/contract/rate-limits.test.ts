import { beforeAll, describe, expect, it } from 'vitest';
import { createKey } from '../../src/cli/keys.ts';
import type { HttpResponse } from '../support/client.ts';
import { needs } from '../support/needs.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

await needs('redis');

let service: Service;

beforeAll(async () => {
  service = await startService({
    workers: 2,
    hotels: [{ id: 'h1', channel_id: 'CH-1', registry_id: 500001 }],
  });
});

const made = (rateLimit: { requests: number; windowMs: number } | null) =>
  createKey(service.sql, { name: 'limited', scopes: [], expiresAt: null, rateLimit });

describe('the headers of a limited key', () => {
  const POLICY = /^"default";q=(\d+);w=(\d+)$/;
  const STATE = /^"default";r=(\d+);t=(\d+)$/;
  const limitsOf = ({ headers }: HttpResponse) => ({
    policy: POLICY.exec(String(headers['ratelimit-policy']))?.slice(1).map(Number),
    state: STATE.exec(String(headers.ratelimit))?.slice(1).map(Number),
  });

  it('state the policy and the remaining requests in every response', async () => {
    const { key } = await made({ requests: 50, windowMs: 60_000 });
    const responses = [
      await service.post('/hotels/channel/batch', { channel_ids: ['CH-1'] }, { key }),
      await service.get('/hotels/h1', { key, method: 'HEAD' }),
    ];
    for (const path of ['/h1', '/nowhere', '/registry/1', '?limit=0', ''])
      responses.push(await service.get(`/hotels${path}`, { key }));
    for (const { policy, state } of responses.map(limitsOf)) {
      expect(policy).toEqual([50, 60]);
      expect(state![0]).toBeLessThan(50);
      expect(state![1]).toBeLessThanOrEqual(60);
    }
  });

  it('state the time to retry in a 429 of the common error form', async () => {
    const { key } = await made({ requests: 3, windowMs: 3_600_000 });
    const status = async () => (await service.get('/hotels/h1', { key })).status;
    expect(await status()).toBe(200);
    // a worker that waits long for its primary counts by itself for a while
    await expect.poll(status).toBe(429);
    for (const response of [
      await service.get('/hotels/h1', { key }),
      await service.get('/hotels/registry/1', { key }),
      await service.post('/hotels/channel/batch', { channel_ids: ['CH-1'] }, { key }),
      await service.post('/hotels/channel/batch', 'x'.repeat(300_000), { key }),
    ]) {
      expect([response.status, response.text, response.headers['content-type']]).toEqual([
        429,
        '{"error":"Too many requests"}',
        'application/json',
      ]);
      const { policy, state } = limitsOf(response);
      expect([policy, state![0]]).toEqual([[3, 3_600], 0]);
      expect(response.headers['retry-after']).toBe(String(state![1]));
    }
    // unknown paths and wrong methods need no key, so they do not count
    expect((await service.get('/nowhere', { key })).status).toBe(404);
    const rejected = await service.metric('hotel_api_requests_rejected_total', { reason: 'rate_limit' });
    expect(rejected).toBeGreaterThan(0);
  });

  it('are absent without a limit, and for unknown keys', async () => {
    const { key } = await made(null);
    for (const response of [
      await service.get('/hotels/h1', { key }),
      await service.get('/hotels/h1', { key: 'none' }),
    ])
      expect(Object.keys(response.headers).filter((name) => name.startsWith('ratelimit'))).toEqual([]);
  });
});

it('a limit that is set, changed or removed is effective in every worker', async () => {
  const { id, key } = await made(null);
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
    const { requests = null, windowMs = null } = limit ?? {};
    await service.sql`
      update api_keys set rate_limit_requests = ${requests}, rate_limit_window_s = ${windowMs && windowMs / 1000}
      where id = ${id}`;
    await expect.poll(policies).toEqual(new Set([policy]));
  }
});

it('instances with RATE_LIMIT_SCOPE=redis share one limit, and apply it by themselves without Redis', async () => {
  const env = { RATE_LIMIT_SCOPE: 'redis' };
  const [one, other] = [await startBeside(service, { env }), await startBeside(service, { env })];
  const alone = await startBeside(service, { env: { ...env, REDIS_URL: 'redis://127.0.0.1:1' } });
  const { id, key } = await made({ requests: 40, windowMs: 3_600_000 });
  const status = async (at: Service) => (await at.get('/hotels/h1', { key })).status;
  await expect.poll(() => status(one)).toBe(429);
  expect(await status(alone)).toBe(200);
  await expect.poll(() => status(other)).toBe(429);
  const redis = service.redis!;
  const [name] = (await redis.keys(`*:l:3600000:${id}`)) as [string];
  expect(await redis.pttl(name)).toBeGreaterThan(0);
  // what is no number there has no effect on requests
  await redis.set(name, 'no number');
  expect([200, 429]).toContain(await status(other));
});
