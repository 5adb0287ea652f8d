import { hash } from 'node:crypto';
import slotOf from 'cluster-key-slot';
import { beforeAll, describe, expect, it } from 'vitest';
import { createKey } from '../../src/cli/keys.ts';
import { read } from '../documents/files.ts';
import { AllWorkers, named } from '../support/all-workers.ts';
import { redisPrefix, untilApplied } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { type ClusterNode, OwnCluster, replicates } from '../support/own-cluster.ts';
import { idsOf } from '../support/responses.ts';
import { type Service, type ServiceOptions, startService } from '../support/service.ts';
import { expectAnswered, SteadyLoad } from '../support/steady-load.ts';

await needs('redis-server');

const RULES = read('k8s/components/redis-acl/users-cluster.acl');
const PASSWORD = 'secret, of the test';
const HOTELS = Array.from({ length: 600 }, (_, i) => ({
  id: `h${i}`,
  // tags and letters beyond ASCII make no difference: slots are those that Redis computes
  channel_id: i % 50 === 0 ? `C{${i}}ö` : `C${i}`,
  registry_id: 1_000 + i,
}));
const BATCH = { channel_ids: HOTELS.map(({ channel_id }) => channel_id) };
const BY_REGISTRY = { registry_ids: HOTELS.map(({ registry_id }) => registry_id) };
const IDS = HOTELS.map(({ id }) => id);

type Nodes = [ClusterNode, ClusterNode, ClusterNode];

let rules: string;
let cluster: OwnCluster;
/** without a local cache, every response uses Redis */
let service: Service;
/** options of another instance of the service */
let beside: ServiceOptions;
let allWorkers: AllWorkers;
let n = 0;

beforeAll(async () => {
  rules = RULES.replace('PASSWORD_SHA256', hash('sha256', PASSWORD));
  cluster = await OwnCluster.start(rules);
  const REDIS_URL = cluster.url(PASSWORD);
  service = await startService({
    hotels: HOTELS,
    redis: false,
    // these tests judge what is read from which node, not the deadline
    env: { REDIS_URL, REDIS_TIMEOUT_MS: '500', L1_MAX_BYTES: '0', RATE_LIMIT_SCOPE: 'redis' },
  });
  beside = { database: service.database, redis: false, env: { REDIS_URL } };
  const caching = await startService(beside);
  allWorkers = await AllWorkers.of(service, caching);
});

async function batch(): Promise<{ id: string; name: string }[]> {
  const response = await service.post('/hotels/channel/batch', BATCH);
  expect(idsOf(response)).toEqual(IDS);
  return response.json();
}

/** Changes every hotel. Once the change is applied, every one must have the new name. */
async function change(): Promise<void> {
  const name = `v${++n}`;
  await service.sql`update hotels set name = ${name}`;
  await untilApplied(service);
  await allWorkers.until('/hotels/h1', named(name));
  expect(new Set((await batch()).map((hotel) => hotel.name))).toEqual(new Set([name]));
}

/** Waits until all hotels and their pointers are in Redis. */
async function warm(): Promise<void> {
  const misses = async () => {
    const before = await inRedis('miss');
    await batch();
    await service.post('/hotels/registry/batch', BY_REGISTRY);
    return (await inRedis('miss')) - before;
  };
  await expect.poll(misses).toBe(0);
}

/** Returns the names of the commands that a node has executed. */
async function usedOf({ admin }: ClusterNode): Promise<string[]> {
  const lines = (await admin.info('commandstats')).matchAll(/^cmdstat_([^:]+):/gm);
  return Array.from(lines, ([, name]) => name!);
}

const running = () => cluster.nodes.filter(({ admin: { status } }) => status === 'ready');

const inRedis = (result: 'hit' | 'miss', of = service) =>
  of.metric('hotel_api_cache_lookups_total', { tier: 'redis', result });

/** Runs `work` while clients request all hotels; every 200 must be complete. `work` may await further responses. */
async function underLoad(work: (load: SteadyLoad) => Promise<unknown>): Promise<void> {
  const { text: answer } = await service.post('/hotels/channel/batch', BATCH);
  const body = JSON.stringify(BATCH);
  const load = new SteadyLoad(service, [{ path: '/hotels/channel/batch', body, answer }], 4);
  await work(load);
  await expectAnswered(load);
}

describe('a Redis Cluster', () => {
  it('serves a batch from every node, with one round trip to each for new pointers and one for hotels', async () => {
    await change();
    await warm();
    // no other client uses this one
    const own = await startService({
      ...beside,
      env: { ...beside.env, L1_MAX_BYTES: '0', REDIS_TIMEOUT_MS: '1000' },
    });
    const counted = async () => [
      await own.metric('hotel_api_dependency_duration_seconds_count', { dependency: 'redis' }),
      await inRedis('hit', own),
      await inRedis('miss', own),
    ];
    /** Returns the round trips to each node, the hits and the misses of a batch. */
    const costOf = async (path: string, body: object) => {
      const before = await counted();
      expect(idsOf(await own.post(path, body))).toEqual(IDS);
      const [calls, hits, misses] = (await counted()).map((count, i) => count - before[i]!);
      return [calls! / cluster.masters.length, hits, misses];
    };
    // the first batches look the API key up and load what Redis lacks
    await expect.poll(() => costOf('/hotels/channel/batch', BATCH)).toEqual([1, HOTELS.length, 0]);
    expect(await costOf('/hotels/registry/batch', BY_REGISTRY)).toEqual([2, HOTELS.length, 0]);
    expect(await costOf('/hotels/registry/batch', BY_REGISTRY)).toEqual([1, HOTELS.length, 0]);
    await own.stop();
    for (const { admin } of cluster.masters) expect(await admin.dbsize()).toBeGreaterThan(100);
  });

  it('answers completely during a move of slots, and from Redis after it', async () => {
    await change();
    await warm();
    const [from, to] = cluster.masters as Nodes;
    const prefix = await redisPrefix(service.sql);
    const ofPointers = new Set(BATCH.channel_ids.map((id) => slotOf(`${prefix}:c:${id}`)));
    const slots = IDS.map((id) => slotOf(`${prefix}:h:${id}`)).filter(
      (slot) => slot < 5_461 && !ofPointers.has(slot),
    );
    const moved = new Set(slots.slice(0, 60));
    const end = await cluster.move([...moved], from, to);
    const missesBefore = await inRedis('miss');
    await batch();
    // the hotels whose slots are being moved, and no others; two may have one slot
    expect((await inRedis('miss')) - missesBefore).toBe(slots.filter((slot) => moved.has(slot)).length);
    await end();
    await batch();
    await warm();
  });

  it('continues while one of its masters hangs, and one circuit breaker opens', async () => {
    await warm();
    const [master] = cluster.masters as Nodes;
    await underLoad(async (load) => {
      await master.server.freeze();
      // that of the worker; the primary process stores changes, and there are none
      await expect.poll(() => service.metric('hotel_api_breaker_open', { dependency: 'redis' })).toBe(1);
      await load.answers(10);
      await master.server.thaw();
      await cluster.settled(master);
    });
    await warm();
  });

  it('fails over from a master that is killed, under load, and every response is complete', async () => {
    const [master, replica] = [cluster.masters[0]!, cluster.replicas[0]!];
    await replicates(replica.admin);
    await replica.admin.config('SET', 'cluster-replica-no-failover', 'no');
    await underLoad(async (load) => {
      await master.server.kill();
      [cluster.masters[0], cluster.replicas[0]] = [replica, master];
      await cluster.settled(replica);
      await load.answers(10);
    });
    await change();
    await warm();
    await expect.poll(() => service.metrics()).toMatch(/hotel_api_breaker_open{dependency="redis"} 0/);
  });

  it('counts a rate limit in the node of its key', async () => {
    const rateLimit = { requests: 3, windowMs: 60_000 };
    const counted = async () => {
      const options = { name: 'limited', scopes: [], expiresAt: null, rateLimit };
      const { id, key } = await createKey(service.sql, options);
      const statuses: number[] = [];
      for (let i = 0; i < 5; i++) statuses.push((await service.get('/hotels/h1', { key })).status);
      const found = await Promise.all(running().map(({ admin }) => admin.keys(`*:l:60000:${id}`)));
      return { statuses, inRedis: found.flat().length > 0 };
    };
    // a third of the keys belong to the nodes that are gone: each instance counts those by itself
    await expect.poll(counted).toEqual({ statuses: [200, 200, 200, 429, 429], inRedis: true });
  });

  it('needs exactly the rights that the file grants', async () => {
    for (const { admin } of running()) {
      const denied = ((await admin.acl('LOG')) as string[][]).map((entry) => entry.join(' '));
      expect(denied.filter((entry) => entry.includes('username hotel-api'))).toEqual([]);
    }
    const granted = rules.match(/^user hotel-api .*$/m)![0].match(/(?<=\+)\S+/g)!;
    const unused = async () => {
      const used = (await Promise.all(running().map(usedOf))).flat();
      return granted.filter((command) => !used.includes(command));
    };
    await expect.poll(unused).toEqual([]);
  });
});
