import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import type { FreshRedis } from '../support/database.ts';
import { FreshnessWatch } from '../support/freshness-watch.ts';
import { needs } from '../support/needs.ts';
import { ownRedis, redisAt } from '../support/own-server.ts';
import { FaultProxy } from '../support/proxy.ts';
import { REDIS_HITS } from '../support/redis-hits.ts';
import { shortOrLong } from '../support/run-length.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

await needs('redis-server');

let redis: FreshRedis;
let proxy: FaultProxy;
/** one has a local cache, the other uses Redis for every request */
let service: Service;
let uncached: Service;
let allWorkers: AllWorkers;
let freshness: FreshnessWatch;
let n = 0;

beforeAll(async () => {
  const { url } = await ownRedis();
  proxy = await FaultProxy.before(url);
  redis = { ...redisAt(url), url: proxy.url };
  const hotels = Array.from({ length: 40 }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}` }));
  service = await startService({ workers: 2, redisDatabase: redis, hotels });
  uncached = await startBeside(service, { workers: 2, env: { L1_MAX_BYTES: '0' } });
  const instances = [service, uncached];
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
async function seen(name: string, timeoutMs = 1_000): Promise<void> {
  await allWorkers.until('/hotels/h1', named(name), timeoutMs);
  for (let i = 0; i < 40; i++) await allWorkers.until(`/hotels/channel/C${i}`, named(name), timeoutMs);
}
/** Fails if a response differs now or within a while. */
async function stays(name: string, forMs: number): Promise<void> {
  const untilMs = performance.now() + forMs;
  for (let i = 0; performance.now() < untilMs; i = (i + 1) % 40) {
    for (const response of await allWorkers.get(`/hotels/h${i}`)) expect(response.json().name).toBe(name);
  }
}

/** Makes a server, a replica of the present master, the master to which new connections lead. */
async function failOver(): Promise<void> {
  const { url } = await ownRedis();
  const { client } = redisAt(url);
  const port = Number(new URL(url).port);
  const [host, masterPort] = [redis.client.options.host!, redis.client.options.port!];
  await client.replicaof(host, masterPort);
  await expect.poll(() => client.info('replication')).toContain('master_link_status:up');
  proxy.leadTo(port);
  await redis.client.call('FAILOVER');
  await expect.poll(() => client.role()).toEqual(expect.arrayContaining(['master']));
  redis = { ...redis, client };
}

async function snapshot(): Promise<Map<string, Buffer>> {
  const dumps = new Map<string, Buffer>();
  for (const key of await redis.client.keys('*')) dumps.set(key, (await redis.client.dumpBuffer(key))!);
  return dumps;
}
async function restore(dumps: Map<string, Buffer>): Promise<void> {
  const work = redis.client.multi().flushall();
  for (const [key, dump] of dumps) work.restore(key, 0, dump);
  await work.exec();
}

describe('no old version is served after a newer one was received', () => {
  it('when Redis is emptied', async () => {
    const name = await change();
    await redis.client.flushall();
    await seen(name);
    await stays(name, 300);
  });

  it('when Redis is restored from an older snapshot', async () => {
    const old = await snapshot();
    const names = [await change(), await change()];
    await seen(names[1]!);
    await restore(old);
    await seen(names[1]!);
    await stays(names[1]!, 800);
    await seen(await change());
  });

  it('when Redis is restored with a deleted hotel, and a change follows at once', async () => {
    await service.insert({ id: 'gone', channel_id: 'GONE' });
    await allWorkers.until('/hotels/channel/GONE', status(200));
    const old = await snapshot();
    await service.sql`delete from hotels where id = 'gone'`;
    await allWorkers.until('/hotels/channel/GONE', status(404));
    await restore(old);
    const name = await change();
    await allWorkers.until('/hotels/channel/GONE', status(404));
    await seen(name);
    await stays(name, 500);
    await allWorkers.until('/hotels/gone', status(404), 0);
  });

  it('when Redis does not respond during the change, and then does', async () => {
    freshness.allowAge(1_500);
    proxy.blackout();
    const name = await change();
    await seen(name, 1_500);
    await proxy.heal();
    await stays(name, 1_500);
    await seen(await change());
  });

  it('when Redis rejects commands during the change, and then does not', async () => {
    await proxy.reject();
    const name = await change();
    await seen(name, 1_000);
    await proxy.heal();
    await stays(name, 1_500);
    await seen(await change());
  });

  it('when Redis is slow', async () => {
    freshness.allowAge(3_000);
    proxy.delay(60);
    for (let i = 0; i < 3; i++) {
      const name = await change();
      await allWorkers.until('/hotels/h3', named(name));
    }
    proxy.delay(250);
    const name = await change();
    await allWorkers.until('/hotels/h3', named(name), 3_000);
    await proxy.heal();
    await seen(await change());
  });

  it('when all connections to Redis are repeatedly closed', async () => {
    for (let i = 0; i < 20; i++) {
      const name = await change();
      if (i % 2 === 0) proxy.reset();
      else await redis.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await allWorkers.until(`/hotels/h${i}`, named(name));
    }
  });

  it('when the connection of the invalidator is closed in the middle of its write', async () => {
    for (let i = 0; i < shortOrLong(10, 20); i++) {
      await redis.client.call('CLIENT', 'PAUSE', '60000', 'WRITE');
      const name = await change();
      await untilHeldWrite();
      await redis.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await redis.client.call('CLIENT', 'UNPAUSE');
      await allWorkers.until(`/hotels/h${i}`, named(name));
    }
    await seen(`v${n}`);
  });
});

/** Waits until a script that stores hotels has reached Redis and is blocked there. */
async function untilHeldWrite(): Promise<void> {
  for (;;) {
    const clients = String(await redis.client.call('CLIENT', 'LIST')).split('\n');
    if (clients.some((client) => / flags=\w*b/.test(client) && / cmd=eval/.test(client))) return;
  }
}

it('after a planned failover whose name leads to the new master, that one is used', async () => {
  await seen(await change());
  await failOver();
  await seen(await change());
  const ids = Array.from({ length: 40 }, (_, i) => `C${i}`);
  const hits = () => uncached.metric('hotel_api_cache_lookups_total', REDIS_HITS);
  const hitsOfBatch = async () => {
    const before = await hits();
    expect((await uncached.post('/hotels/channel/batch', { channel_ids: ids })).status).toBe(200);
    return (await hits()) - before;
  };
  await expect.poll(hitsOfBatch).toBeGreaterThanOrEqual(ids.length);
  await seen(await change());
});
