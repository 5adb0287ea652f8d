import type { Redis } from 'ioredis';
import { beforeAll, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { insertKey } from '../support/key.ts';
import { linesOf } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { ownRedis, redisAt } from '../support/own-server.ts';
import { FaultProxy } from '../support/proxy.ts';
import { REDIS_HITS, untilRedisServes } from '../support/redis-hits.ts';
import { type Service, startBeside, startService } from '../support/service.ts';
import { within } from '../support/stall-detector.ts';

await needs('redis-server');

const IDS = Array.from({ length: 40 }, (_, i) => `h${i}`);
const BATCH = { channel_ids: IDS };
const BOUND_MS = 5_000;
const REASON = "the connection leads to another server than the invalidator's";
const NO_LOCAL_CACHE = { L1_MAX_BYTES: '0' };
const SMALL_LOCAL_CACHE = { L1_MAX_BYTES: String(1024 ** 2) };

/** address of the Redis that the invalidator writes */
let present: string;
/** address of a Redis with its content before the last change, as of a master that was cut off from the others */
let former: string;
let service: Service;
/** key that was revoked with that change */
let key: string;

beforeAll(async () => {
  ({ url: present } = await ownRedis());
  const { client } = redisAt(present);
  const hotels = IDS.map((id) => ({ id, channel_id: id, name: 'old' }));
  service = await startService({ redisDatabase: redisAt(present), hotels, env: NO_LOCAL_CACHE });
  key = await insertKey(service.sql, []);
  await (await AllWorkers.of(service)).until('/hotels/h0', status(200), 10_000, key);
  await untilRedisServes(service, BATCH);
  former = await copyOf(client);
  await service.sql`update hotels set name = 'new'`;
  await service.sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
  await (await AllWorkers.of(service)).until('/hotels/h0', named('new'));
});

/** Starts a Redis with the content of another, which it follows no longer; returns its address. */
async function copyOf({ options }: Redis): Promise<string> {
  const { url } = await ownRedis();
  const { client } = redisAt(url);
  await client.replicaof(options.host!, options.port!);
  const info = () => client.info('replication');
  await within(10_000, info, (text) => expect(text).toContain('master_link_status:up'));
  await client.replicaof('NO', 'ONE');
  return url;
}

/** Starts an instance whose connections to Redis lead to this address until `path` moves. */
async function startAt(url: string, env: Record<string, string>) {
  const path = await FaultProxy.before(url);
  const instance = await startBeside(service, { redisDatabase: { ...redisAt(url), url: path.url }, env });
  return { path, instance };
}

const portOf = (url: string) => Number(new URL(url).port);
const openBreakers = (instance: Service) => () =>
  instance.metric('hotel_api_breaker_open', { dependency: 'redis' });
/** Waits until the worker does not use its Redis. */
async function untilDistrusted(instance: Service): Promise<void> {
  // on a busy machine the circuit breaker may have opened for another reason before
  const reasons = () => linesOf(instance.logs(), 'circuit breaker opened').map(({ reason }) => reason);
  await expect.poll(reasons, { timeout: 60_000 }).toContain(REASON);
  await expect.poll(openBreakers(instance), { timeout: 60_000 }).toBe(1);
}
const namesIn = async (instance: Service, channel_ids: string[]): Promise<string[]> =>
  (await instance.post('/hotels/channel/batch', { channel_ids }))
    .json()
    .map(({ name }: { name: string }) => name);

it.each([
  ['without a local cache', NO_LOCAL_CACHE],
  ['with a local cache', SMALL_LOCAL_CACHE],
])(
  'an instance at a former master serves nothing old, and later uses the present one: %s',
  async (_, env) => {
    const { path, instance } = await startAt(former, env);
    const allWorkers = await AllWorkers.of(instance);
    for (const id of IDS) await allWorkers.until(`/hotels/channel/${id}`, named('new'), BOUND_MS);
    await allWorkers.until('/hotels/h0', status(401), BOUND_MS, key);
    await untilDistrusted(instance);
    expect(await namesIn(instance, IDS)).toEqual(IDS.map(() => 'new'));

    path.moveTo(portOf(present));
    await expect.poll(openBreakers(instance), { timeout: 60_000 }).toBe(0);
    if (env === NO_LOCAL_CACHE) await untilRedisServes(instance, BATCH);
  },
);

it('an instance does not use an empty Redis that the invalidator does not write', async () => {
  const { url } = await ownRedis();
  const { instance } = await startAt(url, NO_LOCAL_CACHE);
  await untilDistrusted(instance);
  const hits = await instance.metric('hotel_api_cache_lookups_total', REDIS_HITS);
  expect(await namesIn(instance, IDS)).toEqual(IDS.map(() => 'new'));
  expect(await instance.metric('hotel_api_cache_lookups_total', REDIS_HITS)).toBe(hits);
});
