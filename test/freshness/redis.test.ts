import type { Redis } from 'ioredis';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import type { FreshRedis } from '../support/database.ts';
import { FreshnessWatch } from '../support/freshness-watch.ts';
import { insertKey } from '../support/key.ts';
import { redisPrefix, untilApplied } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { ownRedis, redisAt } from '../support/own-server.ts';
import { FaultProxy } from '../support/proxy.ts';
import { REDIS_HITS, untilRedisServes } from '../support/redis-hits.ts';
import { type Service, startBeside, startService, stopAfterTest } from '../support/service.ts';
import { within } from '../support/stall-detector.ts';
import { withoutTriggers } from '../support/triggers.ts';

await needs('redis-server');

const IDS = Array.from({ length: 20 }, (_, i) => `h${i}`);
const CHANNELS = IDS.map((id) => `C-${id}`);
const BATCH = { channel_ids: CHANNELS };
const NO_LOCAL_CACHE = { L1_MAX_BYTES: '0' };

let redis: FreshRedis;
let proxy: FaultProxy;
/** one has a local cache, the other uses Redis for every request */
let service: Service;
let uncached: Service;
let instances: Service[];
let allWorkers: AllWorkers;
let freshness: FreshnessWatch;
let n = 0;

beforeAll(async () => {
  const { url } = await ownRedis();
  proxy = await FaultProxy.before(url);
  redis = { ...redisAt(url), url: proxy.url };
  const hotels = IDS.map((id, i) => ({ id, channel_id: CHANNELS[i]!, name: 'v0' }));
  service = await startService({ workers: 2, redisDatabase: redis, hotels });
  uncached = await startBeside(service, { workers: 2, env: NO_LOCAL_CACHE });
  instances = [service, uncached];
  allWorkers = await AllWorkers.of(...instances);
  freshness = new FreshnessWatch(...instances);
});
beforeEach(async () => {
  await proxy.heal();
  await seen(await change());
});

async function change(): Promise<string> {
  const name = `v${++n}`;
  await service.sql`update hotels set name = ${name}`;
  return name;
}
/** Waits until every hotel has this name everywhere. */
async function seen(name: string, timeoutMs = 1_000, at = allWorkers): Promise<void> {
  await at.until('/hotels/h1', named(name), timeoutMs);
  for (const channel of CHANNELS) await at.until(`/hotels/channel/${channel}`, named(name), timeoutMs);
}
/** Requests it once from every worker; each response must match. */
async function answers(
  path: string,
  isSo: ReturnType<typeof named>,
  at = allWorkers,
  key?: string,
): Promise<void> {
  for (const response of await at.get(path, key))
    expect([isSo(response), response.status, response.text]).toEqual([true, response.status, response.text]);
}
/** Requests everything often; each response must have this name. */
async function stays(name: string, rounds = 3, at = allWorkers): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const id of IDS)
      for (const response of await at.get(`/hotels/${id}`)) expect(response.json().name).toBe(name);
    for (const response of await at.post('/hotels/channel/batch', BATCH))
      expect(new Set(response.json().map((hotel: { name: string }) => hotel.name))).toEqual(new Set([name]));
  }
}

async function snapshot(client: Redis = redis.client): Promise<Map<string, Buffer>> {
  const dumps = new Map<string, Buffer>();
  for (const key of await client.keys('*')) dumps.set(key, (await client.dumpBuffer(key))!);
  return dumps;
}
async function restore(dumps: Map<string, Buffer>, client: Redis = redis.client): Promise<void> {
  const work = client.multi().flushall();
  for (const [key, dump] of dumps) work.restore(key, 0, dump);
  await work.exec();
}
/** Reads every hotel at an instance, so that Redis holds all of them. */
const filled = () => untilRedisServes(uncached, BATCH);
const hitsOf = (instance: Service) => instance.metric('hotel_api_cache_lookups_total', REDIS_HITS);

describe('no old value is served', () => {
  it('when Redis is emptied', async () => {
    const name = await change();
    await redis.client.flushall();
    await seen(name);
    await stays(name);
  });

  it('when Redis goes back to an old dump, between any two requests', async () => {
    await filled();
    const old = await snapshot();
    const names = [await change(), await change()];
    await seen(names[1]!);
    for (let i = 0; i < 10; i++) {
      await restore(old);
      await stays(names[1]!, 1);
    }
    await seen(await change());
  });

  it('when Redis goes back at the moment of a change', async () => {
    await service.insert({ id: 'gone', channel_id: 'GONE' });
    await allWorkers.until('/hotels/channel/GONE', status(200));
    await filled();
    const old = await snapshot();
    await service.sql`delete from hotels where id = 'gone'`;
    await allWorkers.until('/hotels/channel/GONE', status(404));
    await restore(old);
    const name = await change();
    await restore(old);
    await seen(name);
    await restore(old);
    await stays(name);
    for (const path of ['/hotels/channel/GONE', '/hotels/gone']) await answers(path, status(404));
  });

  it('when an old SET arrives over a newer entry, for hotels, absences and keys', async () => {
    const key = await insertKey(service.sql, []);
    await untilApplied(uncached);
    await allWorkers.until('/hotels/h0', status(200), 1_000, key);
    await allWorkers.until('/hotels/channel/LATER', status(404));
    await allWorkers.until('/hotels/later', status(404));
    await filled();
    const sha256 = hashOf(key);
    const names = [`:k:${sha256}`, ':c:LATER', ':h:later', ':h:h0', ':c:C-h0'];
    const prefix = await redisPrefix(service.sql);
    const missing = async () => {
      const values = await redis.client.mget(names.map((each) => prefix + each));
      return names.filter((_, i) => values[i] === null);
    };
    await expect.poll(missing, { timeout: 10_000 }).toEqual([]);
    const old = await snapshot();
    await service.insert({ id: 'later', channel_id: 'LATER', name: 'later' });
    await service.sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(sha256, 'hex')}`;
    const name = await change();
    await seen(name);
    await allWorkers.until('/hotels/h0', status(401), 1_000, key);
    await allWorkers.until('/hotels/channel/LATER', status(200));
    // like the SETs of a process that was stopped meanwhile
    for (const each of names)
      await redis.client.restore(prefix + each, 0, old.get(prefix + each)!, 'REPLACE');
    const late = stopAfterTest(await startBeside(service, { env: NO_LOCAL_CACHE }));
    const all = await AllWorkers.of(service, uncached, late);
    for (const each of names)
      await redis.client.restore(prefix + each, 0, old.get(prefix + each)!, 'REPLACE');
    for (const path of ['/hotels/channel/LATER', '/hotels/later', '/hotels/channel/C-h0', '/hotels/h0'])
      await answers(path, named(name), all);
    await answers('/hotels/h0', status(401), all, key);
    all.close();
  });

  it('when Redis does not respond during the change, and then does', async () => {
    freshness.allowAge(1_500);
    proxy.blackout();
    const name = await change();
    await seen(name, 1_500);
    await proxy.heal();
    await stays(name);
    await seen(await change());
  });

  it('when Redis rejects commands during the change, and then does not', async () => {
    await proxy.reject();
    const name = await change();
    await seen(name);
    await proxy.heal();
    await stays(name);
    await seen(await change());
  });

  it('when Redis is slow', async () => {
    freshness.allowAge(3_000);
    proxy.delay(60);
    for (let i = 0; i < 3; i++) await allWorkers.until('/hotels/h3', named(await change()));
    proxy.delay(250);
    await allWorkers.until('/hotels/h3', named(await change()), 3_000);
    await proxy.heal();
    await seen(await change());
  });

  it('when all connections to Redis are repeatedly closed', async () => {
    for (let i = 0; i < 20; i++) {
      const name = await change();
      if (i % 2 === 0) proxy.reset();
      else await redis.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await allWorkers.until(`/hotels/${IDS[i]}`, named(name));
    }
    await seen(`v${n}`);
  });

  it.each(['allkeys-random', 'allkeys-lru', 'volatile-ttl', 'noeviction'])(
    'when Redis is full, under the policy %s',
    async (policy) => {
      await filled();
      const infoOf = async (field: string) =>
        Number(new RegExp(`${field}:(\\d+)`).exec(await redis.client.info())![1]);
      const before = await infoOf('evicted_keys');
      await redis.client.config('SET', 'maxmemory-policy', policy);
      await redis.client.config('SET', 'maxmemory', String((await infoOf('used_memory')) - 10_000));
      try {
        for (let i = 0; i < 3; i++) await seen(await change());
        await stays(`v${n}`, 1);
      } finally {
        await redis.client.config('SET', 'maxmemory', '0');
        await redis.client.config('SET', 'maxmemory-policy', 'noeviction');
      }
      if (policy !== 'noeviction') expect(await infoOf('evicted_keys')).toBeGreaterThan(before);
      await seen(await change());
    },
  );
});

describe('two instances, of which each has another Redis,', () => {
  /** Starts a Redis with the content of the first. Resolves when it has all of it. */
  async function follower(): Promise<FreshRedis> {
    const { url } = await ownRedis();
    const other = redisAt(url);
    const { host, port } = redis.client.options;
    await other.client.replicaof(host!, port!);
    const info = () => other.client.info('replication');
    await within(10_000, info, (text) => expect(text).toContain('master_link_status:up'));
    return other;
  }

  it.each([
    ['without a local cache', NO_LOCAL_CACHE],
    ['with a local cache', { L1_MAX_BYTES: String(1024 ** 2) }],
  ])('serve nothing old: one stands still since a change, as a former master does (%s)', async (_, env) => {
    const key = await insertKey(service.sql, []);
    await allWorkers.until('/hotels/h0', status(200), 1_000, key);
    await filled();
    const former = await follower();
    await former.client.replicaof('NO', 'ONE');
    await service.sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
    const name = await change();
    await seen(name);
    const beside = stopAfterTest(await startBeside(service, { redisDatabase: former, env }));
    const both = await AllWorkers.of(service, uncached, beside);
    await answers('/hotels/h0', status(401), both, key);
    await stays(name, 3, both);
    // both go on, each with its own
    for (let i = 0; i < 5; i++) await seen(await change(), 1_000, both);
    if (env === NO_LOCAL_CACHE) await untilRedisServes(beside, BATCH);
    both.close();
  });

  it('serve nothing old: one reads a replica that lags', async () => {
    await filled();
    const replica = await follower();
    const beside = stopAfterTest(await startBeside(service, { redisDatabase: replica, env: NO_LOCAL_CACHE }));
    const both = await AllWorkers.of(service, uncached, beside);
    const { host, port } = redis.client.options;
    for (let i = 0; i < 3; i++) {
      // it takes no writes of the instance, and for a while none of its master
      await replica.client.replicaof(host!, 1);
      const name = await change();
      await seen(name, 1_000, both);
      await stays(name, 1, both);
      await replica.client.replicaof(host!, port!);
      await stays(name, 1, both);
    }
    both.close();
  });

  it('serve nothing old: one has none, and joins later', async () => {
    const without = stopAfterTest(await startBeside(service, { redis: false, workers: 2 }));
    const both = await AllWorkers.of(service, uncached, without);
    for (let i = 0; i < 10; i++) await seen(await change(), 1_000, both);
    // only the instance that sequences a change stores it, and this one has no Redis
    await stays(`v${n}`, 2, both);
    both.close();
  });
});

it('an instance that starts uses what others have stored in Redis, as far as no change of it is known', async () => {
  const name = await change();
  await seen(name);
  await filled();
  // a change of another hotel, so that what Redis holds was read at an earlier position than that of the start
  await service.insert({ id: `another ${n}` });
  await untilApplied(uncached);
  const late = stopAfterTest(await startBeside(service, { env: NO_LOCAL_CACHE }));
  const before = await hitsOf(late);
  // it learns the log backwards behind its start
  await expect
    .poll(async () => {
      const response = await late.post('/hotels/channel/batch', BATCH);
      expect(new Set(response.json().map((hotel: { name: string }) => hotel.name))).toEqual(new Set([name]));
      return (await hitsOf(late)) - before;
    })
    .toBeGreaterThanOrEqual(IDS.length);
  const fromPostgres = () =>
    late.metric('hotel_api_cache_lookups_total', { tier: 'postgres', result: 'hit' });
  const loaded = await fromPostgres();
  await stays(name, 1, await AllWorkers.of(late));
  expect(await fromPostgres()).toBe(loaded);
});

it('rows that were written with triggers disabled are served once `hotel_api_invalidate()` is called', async () => {
  freshness.allowAge(30_000);
  const key = await insertKey(service.sql, []);
  await allWorkers.until('/hotels/h1', status(200), 1_000, key);
  await allWorkers.until('/hotels/nowhere', status(404));
  await filled();
  const name = `v${n}`;
  await withoutTriggers(service.sql, async (sql) => {
    await sql`update hotels set name = 'unannounced' where id = 'h7'`;
    await sql`delete from hotels where id = 'h8'`;
    await sql`insert into hotels (id, name) values ('nowhere', 'here')`;
    await sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
  });
  // nobody can know
  await answers('/hotels/h7', named(name));
  await service.sql`select hotel_api_invalidate()`;
  await Promise.all([
    allWorkers.until('/hotels/h7', named('unannounced')),
    allWorkers.until('/hotels/channel/C-h7', named('unannounced')),
    allWorkers.until('/hotels/h8', status(404)),
    allWorkers.until('/hotels/nowhere', named('here')),
    allWorkers.until('/hotels/h1', status(401), 1_000, key),
  ]);
  // an instance that starts learns it from the log
  const late = stopAfterTest(await startBeside(service, { env: NO_LOCAL_CACHE }));
  const all = await AllWorkers.of(late);
  await answers('/hotels/h7', named('unannounced'), all);
  await answers('/hotels/h8', status(404), all);
  await answers('/hotels/h1', status(401), all, key);
  all.close();
  await service.insert({ id: 'h8', channel_id: 'C-h8' });
});
