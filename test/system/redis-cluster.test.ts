import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import slotOf from 'cluster-key-slot';
import { beforeAll, describe, expect, it } from 'vitest';
import { createKey } from '../../src/cli/keys.ts';
import { AllWorkers, named } from '../support/all-workers.ts';
import { redisPrefix, untilApplied } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { type ClusterNode, OwnCluster, replicates } from '../support/own-cluster.ts';
import { type Service, type ServiceOptions, startService } from '../support/service.ts';
import { SteadyLoad } from '../support/steady-load.ts';

await needs('redis-server');

const RULES = fileURLToPath(new URL('../../k8s/components/redis-acl/users-cluster.acl', import.meta.url));
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
/** commands of killed nodes */
const usedOfKilled = new Set<string>();

beforeAll(async () => {
  rules = (await readFile(RULES, 'utf8')).replace('PASSWORD_SHA256', hash('sha256', PASSWORD));
  cluster = await OwnCluster.start(rules);
  const REDIS_URL = cluster.url(PASSWORD);
  service = await startService({
    hotels: HOTELS,
    redis: false,
    // a machine with other work on it keeps this deadline, also when a node is lost
    env: {
      ...{ REDIS_URL, REDIS_TIMEOUT_MS: '500', L1_MAX_BYTES: '0' },
      RATE_LIMIT_SCOPE: 'redis',
    },
  });
  beside = { database: service.database, redis: false, env: { REDIS_URL } };
  const caching = await startService(beside);
  allWorkers = await AllWorkers.of(service, caching);
});

async function change(): Promise<string> {
  const name = `v${++n}`;
  await service.sql`update hotels set name = ${name}`;
  return name;
}

async function batch(): Promise<{ id: string; name: string }[]> {
  const response = await service.post('/hotels/channel/batch', BATCH);
  expect(response.status, response.text.slice(0, 200)).toBe(200);
  return response.json();
}

/** Waits until the change is applied. Every hotel must then have this name. */
async function seen(name: string): Promise<void> {
  await untilApplied(service);
  await allWorkers.until('/hotels/h1', named(name));
  const hotels = await batch();
  expect(hotels.map(({ id }) => id)).toEqual(IDS);
  expect(new Set(hotels.map((hotel) => hotel.name))).toEqual(new Set([name]));
}

/** Waits until all hotels and their pointers are in Redis. */
async function warm(): Promise<void> {
  await expect
    .poll(async () => {
      const before = await inRedis('miss');
      await batch();
      await service.post('/hotels/registry/batch', BY_REGISTRY);
      return (await inRedis('miss')) - before;
    })
    .toBe(0);
}

/** Returns the id of the node that has a key at present, as a node reports it. */
async function ownersOf(node: ClusterNode): Promise<(key: string) => string> {
  const ranges = await node.admin.cluster('SLOTS');
  return (key) => ranges.find(([from, to]) => from <= slotOf(key) && slotOf(key) <= to)![2]![2];
}

/** Sets whether the masters reject commands while slots are not served; the documentation advises against it. */
async function requireFullCoverage(required: 'yes' | 'no'): Promise<void> {
  for (const { admin } of cluster.nodes.filter(({ admin: { status } }) => status === 'ready'))
    await admin.config('SET', 'cluster-require-full-coverage', required);
}

/** Returns the number of calls of a node by command, as in its statistics. */
async function callsOf({ admin }: ClusterNode): Promise<Map<string, number>> {
  const lines = (await admin.info('commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return new Map(Array.from(lines, ([, name, calls]) => [name!, Number(calls)]));
}

/** Kills a node, after its statistics are recorded. */
async function kill(node: ClusterNode): Promise<void> {
  for (const name of (await callsOf(node)).keys()) usedOfKilled.add(name);
  await node.server.kill();
}

const inRedis = (result: 'hit' | 'miss', of = service) =>
  of.metric('hotel_api_cache_lookups_total', { tier: 'redis', result });

/**
 * Runs `work` while clients request all hotels; every 200 must be complete. A machine that pauses may reject a request: that
 * requests are served during outages is held in virtual time. `work` may await further responses.
 */
async function underLoad(work: (load: SteadyLoad) => Promise<unknown>): Promise<void> {
  const { text: answer } = await service.post('/hotels/channel/batch', BATCH);
  const body = JSON.stringify(BATCH);
  const load = new SteadyLoad(service, [{ path: '/hotels/channel/batch', body, answer }], 4);
  await work(load);
  await load.answers(4);
  expect(await load.stop()).toMatchObject({ faults: [], refused: 0 });
}

describe('a Redis Cluster', () => {
  it('serves a batch from every node, with one round trip to each for new pointers and one for hotels', async () => {
    await seen(await change());
    await warm();
    // no other client uses this one
    const own = await startService({
      ...beside,
      env: { ...beside.env, L1_MAX_BYTES: '0', REDIS_TIMEOUT_MS: '1000' },
    });
    const counted = async () => ({
      calls: await own.metric('hotel_api_dependency_duration_seconds_count', { dependency: 'redis' }),
      hits: await inRedis('hit', own),
      misses: await inRedis('miss', own),
    });
    const costOf = async (path: string, body: object) => {
      const before = await counted();
      const hotels = (await own.post(path, body)).json() as { id: string }[];
      expect(hotels.map(({ id }) => id)).toEqual(IDS);
      const after = await counted();
      return {
        calls: after.calls - before.calls,
        hits: after.hits - before.hits,
        misses: after.misses - before.misses,
      };
    };
    const cost = (roundTrips: number) => ({
      calls: roundTrips * cluster.masters.length,
      hits: HOTELS.length,
      misses: 0,
    });
    // the first batches look the API key up and load what Redis lacks
    await expect.poll(() => costOf('/hotels/channel/batch', BATCH)).toEqual(cost(1));
    expect(await costOf('/hotels/registry/batch', BY_REGISTRY)).toEqual(cost(2));
    expect(await costOf('/hotels/registry/batch', BY_REGISTRY)).toEqual(cost(1));
    await own.stop();
    for (const { admin } of cluster.masters) expect(await admin.dbsize()).toBeGreaterThan(100);
  });

  it('answers completely during a move of slots, and from Redis after it', async () => {
    await seen(await change());
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
    expect((await batch()).map(({ id }) => id)).toEqual(IDS);
    // the hotels whose slots are being moved, and no others; two may have one slot
    expect((await inRedis('miss')) - missesBefore).toBe(slots.filter((slot) => moved.has(slot)).length);
    await end();
    expect((await batch()).map(({ id }) => id)).toEqual(IDS);
    await warm();
  });

  it('continues while one of its masters hangs: the others reply, and one circuit breaker opens', async () => {
    await warm();
    await requireFullCoverage('no');
    const [master] = cluster.masters.slice(2) as [ClusterNode];
    const ownerOf = await ownersOf(master);
    await master.server.freeze();
    try {
      const openBreakersAfterBatch = async () => {
        expect((await batch()).map(({ id }) => id)).toEqual(IDS);
        return service.metric('hotel_api_breaker_open', { dependency: 'redis' });
      };
      // that of the worker; the primary process stores changes, and there are none
      await expect.poll(openBreakersAfterBatch).toBe(1);
      const opened = service.logs().filter((line) => line.includes('"circuit breaker opened"'));
      expect(opened.at(-1)).toContain(`"reason":"127.0.0.1:${master.server.port}: `);
      // a hotel is found if neither its pointer nor its entry is in the master that hangs
      const prefix = await redisPrefix(service.sql);
      const isFound = (hotel: (typeof HOTELS)[number]) =>
        [`c:${hotel.channel_id}`, `h:${hotel.id}`].every((key) => ownerOf(`${prefix}:${key}`) !== master.id);
      const lacking = async () => {
        const before = await inRedis('hit');
        expect((await batch()).map(({ id }) => id)).toEqual(IDS);
        return HOTELS.filter(isFound).length - ((await inRedis('hit')) - before);
      };
      await expect.poll(lacking).toBeLessThanOrEqual(0);
    } finally {
      await master.server.thaw();
    }
    await requireFullCoverage('yes');
    await cluster.settled(master);
    await warm();
  });

  it('fails over from a master that is killed, under load, and every response is complete', async () => {
    const [master, replica] = [cluster.masters[0]!, cluster.replicas[0]!];
    await replicates(replica.admin);
    await replica.admin.config('SET', 'cluster-replica-no-failover', 'no');
    await underLoad(async (load) => {
      await kill(master);
      [cluster.masters[0], cluster.replicas[0]] = [replica, master];
      await cluster.settled(replica);
      await load.answers(10);
    });
    await seen(await change());
    await warm();
    await expect.poll(() => service.metrics()).toMatch(/hotel_api_breaker_open{dependency="redis"} 0/);
  });

  it('counts a rate limit in the node of its key', async () => {
    const rateLimit = { requests: 3, windowMs: 60_000 };
    const nodes = cluster.nodes.filter(({ admin: { status } }) => status === 'ready');
    const counted = async () => {
      const options = { name: 'limited', scopes: [], expiresAt: null, rateLimit };
      const { id, key } = await createKey(service.sql, options);
      const statuses: number[] = [];
      for (let i = 0; i < 5; i++) statuses.push((await service.get('/hotels/h1', { key })).status);
      const found = await Promise.all(nodes.map(({ admin }) => admin.keys(`*:l:60000:${id}`)));
      return { statuses, inRedis: found.flat().length > 0 };
    };
    // a third of the keys belong to the nodes that are gone: each instance counts those by itself
    await expect.poll(counted).toEqual({ statuses: [200, 200, 200, 429, 429], inRedis: true });
  });

  it('needs exactly the rights that the file grants', async () => {
    const nodes = cluster.nodes.filter(({ admin: { status } }) => status === 'ready');
    for (const { admin } of nodes) {
      const denied = ((await admin.acl('LOG')) as string[][]).map((entry) => entry.join(' '));
      expect(denied.filter((entry) => entry.includes('username hotel-api'))).toEqual([]);
    }
    const granted = rules.match(/^user hotel-api .*$/m)![0].match(/(?<=\+)\S+/g)!;
    const unused = async () => {
      const calls = await Promise.all(nodes.map(callsOf));
      const used = new Set([...usedOfKilled, ...calls.flatMap((each) => [...each.keys()])]);
      return granted.filter((command) => !used.has(command));
    };
    await expect.poll(unused).toEqual([]);
  });
});
