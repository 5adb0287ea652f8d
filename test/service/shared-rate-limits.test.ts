import { beforeAll, describe, expect, it } from 'vitest';
import { createKey } from '../../src/cli/keys.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { Client } from '../support/client.ts';
import { unlessHeldUp } from '../support/hold-ups.ts';
import { needs } from '../support/needs.ts';
import { FaultProxy } from '../support/proxy.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

await needs('redis-server');

/** Longer than a test: counts then depend on no time. */
const WINDOW_MS = 3_600_000;
const LIMIT = 300;
const CONNECTIONS = 3;

/** Three instances of two workers on one database and one Redis. */
let instances: [Service, Service, Service];
const shared = { workers: 2, env: { RATE_LIMIT_SCOPE: 'redis' } };

beforeAll(async () => {
  const first = await startService({ ...shared, hotels: [{ id: 'h1' }] });
  instances = [first, await startBeside(first, shared), await startBeside(first, shared)];
  closeAtEnd('client connections', async () => {
    for (const client of clients.values()) client.close();
  });
});

const limited = async (requests = LIMIT, windowMs = WINDOW_MS) =>
  createKey(instances[0].sql, {
    name: 'limited',
    scopes: [],
    expiresAt: null,
    rateLimit: { requests, windowMs },
  });

/** Client of each instance, with a few connections. */
const clients = new Map<Service, Client>();

async function send(service: Service, key: string): Promise<{ status: number; remaining: number }> {
  const client = clients.get(service) ?? new Client(service.port, { full: '', narrow: '' }, CONNECTIONS);
  clients.set(service, client);
  const { status, headers } = await client.request('/hotels/h1', { key });
  const [, remaining] = /r=(\d+)/.exec(String(headers.ratelimit)) ?? [];
  return { status, remaining: Number(remaining) };
}

/** Sends so many requests to each of these instances at once. */
const sendAll = async (services: Service[], key: string, each: number) =>
  (
    await Promise.all(services.flatMap((service) => Array.from({ length: each }, () => send(service, key))))
  ).map(({ status }) => status);
const admittedOf = (statuses: number[]) => statuses.filter((status) => status === 200).length;

/**
 * Runs the check with a new key. An instance that waits 50 ms for Redis, or a worker that waits 100 ms for its primary,
 * counts by itself, so it is repeated if one was held up.
 */
const onSomeKey = (check: (key: string, id: string) => Promise<void>) =>
  unlessHeldUp(instances, 0.05, async () => {
    const { key, id } = await limited();
    await check(key, id);
  });

describe('three instances with one limit', () => {
  it('admit it within a tenth, under load on all', async () => {
    await onSomeKey(async (key) => {
      const statuses = await sendAll(instances, key, LIMIT);
      expect(new Set(statuses)).toEqual(new Set([200, 429]));
      expect(admittedOf(statuses)).toBeGreaterThanOrEqual(0.9 * LIMIT);
      expect(admittedOf(statuses)).toBeLessThanOrEqual(1.1 * LIMIT);
    });
  });

  it('admit all of it to a client of one, and then nothing by the others', async () => {
    await onSomeKey(async (key) => {
      const admitted = admittedOf(await sendAll([instances[1]], key, LIMIT + 50));
      expect(admitted).toBeGreaterThanOrEqual(0.9 * LIMIT);
      expect(admitted).toBeLessThanOrEqual(1.1 * LIMIT);
      expect(admittedOf(await sendAll([instances[0], instances[2]], key, 20))).toBe(0);
    });
  });

  it('admit one request of a limit of one, and count again after the window', async () => {
    const { key } = await limited(1, 1_000);
    expect((await send(instances[0], key)).status).toBe(200);
    await expect.poll(async () => (await send(instances[2], key)).status).toBe(200);
  });

  it('report a remainder that never grows at one instance', async () => {
    await onSomeKey(async (key) => {
      const remainders: number[][] = [[], [], []];
      for (let i = 0; i < LIMIT + 30; i++) {
        const at = (i % 5) % 3;
        remainders[at]!.push((await send(instances[at]!, key)).remaining);
      }
      for (const remaining of remainders)
        expect(remaining).toEqual([...remaining].sort((one, other) => other - one));
      expect(remainders.map((remaining) => remaining.at(-1))).toEqual([0, 0, 0]);
    });
  });

  it('leave a value without a lifetime or a number in Redis without effect', async () => {
    await onSomeKey(async (key, id) => {
      expect((await send(instances[0], key)).status).toBe(200);
      const [name] = (await instances[0].redis!.keys(`*:l:${WINDOW_MS}:${id}`)) as [string];
      expect(await instances[0].redis!.pttl(name)).toBeGreaterThan(0);
      await instances[0].redis!.set(name, 'no number');
      expect((await send(instances[1], key)).status).toBe(200);
      expect(await instances[0].redis!.pttl(name)).toBeGreaterThan(0);
    });
  });

  it('apply the limit each by itself without Redis', async () => {
    const proxy = await FaultProxy.before(instances[0].redisDatabase!.url);
    const env = { ...shared.env, REDIS_URL: proxy.url };
    const services = [await startBeside(instances[0], { env }), await startBeside(instances[0], { env })];
    const { key } = await limited();
    await proxy.reject();
    for (const service of services)
      expect(admittedOf(await sendAll([service], key, LIMIT + 50))).toBeGreaterThanOrEqual(0.9 * LIMIT);
  });
});
