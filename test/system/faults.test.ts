import { Redis } from 'ioredis';
import postgres, { type Sql } from 'postgres';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type Fault,
  type FaultySystem,
  faultsOf,
  faultySystem,
  type Reached,
} from '../support/faulty-system.ts';
import { hotelBody, hotelRow, requestsOf } from '../support/known-hotels.ts';
import { redisPrefix } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { REDIS_HITS } from '../support/redis-use.ts';
import type { Service } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';

await needs('redis-server');

/** Hotels of the load, and others that are requested once each. */
const CACHED = 100;
const COLD = 2_000;
const REQUESTS = requestsOf(CACHED);
/** Responses of a fault that ends by itself. */
const SOME = 100;

let system: FaultySystem;
/** without a local cache, so that it needs Redis for every request */
let bare: Service;
/** with a local cache */
let local: Service;
let cold = CACHED;

beforeAll(async () => {
  system = await faultySystem();
  const hotels = Array.from({ length: CACHED + COLD }, (_, i) => hotelRow(i));
  // longer than a busy machine takes
  const env = { DATABASE_TIMEOUT_MS: '2000', REDIS_TIMEOUT_MS: '500' };
  bare = await system.start({ workers: 2, hotels, env: { ...env, L1_MAX_BYTES: '0' } });
  local = await system.start({ env });
});

const isOpen = (dependency: string) => bare.metric('hotel_api_breaker_open', { dependency });
const isCurrent = (service: Service) => service.metric('hotel_api_log_current');

/** Requests a hotel that is in no cache. */
async function statusOfCold(service: Service): Promise<number> {
  const i = cold++;
  const { status, text, headers } = await service.get(`/hotels/chaos-${i}`);
  if (status === 200) expect(text).toBe(hotelBody(i));
  else expect([status, headers['retry-after']]).toEqual([503, expect.stringMatching(/^\d+$/)]);
  return status;
}

/** Resolves when Redis holds every hotel of the load, under each of its ids. */
async function filled(): Promise<void> {
  const prefix = await redisPrefix(system.postgres.sql);
  const names = Array.from({ length: CACHED }, (_, i) => [
    ...[`${prefix}:h:chaos-${i}`, `${prefix}:c:CH-${i}`, `${prefix}:r:${500_000 + i}`],
  ]).flat();
  const lacking = async () => {
    for (const { path, body } of REQUESTS) await (body ? bare.post(path, body) : bare.get(path));
    return names.length - (await system.redis.client.exists(...names));
  };
  await expect.poll(lacking).toBe(0);
}

const follows = (service: Service, workers: number) => expect.poll(() => isCurrent(service)).toBe(workers);

/** Ends all connections of the services; returns their number. */
const terminate = async () =>
  (
    await system.postgres.sql`
      select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'hotel-api %'`
  ).length;

/** Faults of any server that last. From a frozen one no byte comes, as from one behind a path that is lost. */
const LASTING = [
  'is frozen',
  'is killed',
  'is behind a proxy that accepts connections and ends them',
] as const;

const ofServer = (server: () => Reached, kinds: readonly (keyof ReturnType<typeof faultsOf>)[]) =>
  Object.fromEntries(kinds.map((kind) => [kind, (): Fault => faultsOf(server())[kind]]));

/** Another connection, whose transaction stays open. */
function transaction(statement: string): Fault {
  let owner: Sql;
  return {
    begin: () => {
      owner = postgresClient(system.postgres.ownerUrl);
      return owner.unsafe(`begin; ${statement}`).simple();
    },
    end: async () => {
      await owner.unsafe('rollback').simple();
      await owner.end();
    },
  };
}

/** Clients that take every connection of PostgreSQL. */
function noConnection(): Fault {
  const clients: Sql[] = [];
  const takesOne = () => {
    const client = postgres(system.postgres.url, { max: 1, onnotice: () => {}, fetch_types: false });
    clients.push(client);
    return client`select 1`.then(
      () => true,
      () => false,
    );
  };
  return {
    begin: async () => {
      do while (await takesOne());
      while ((await terminate()) > 0);
    },
    end: () => Promise.all(clients.map((client) => client.end({ timeout: 0 }))),
  };
}

describe('cached hotels are served, and other requests rejected at once, while PostgreSQL', () => {
  const faults: Record<string, () => Fault> = {
    ...ofServer(() => system.postgres, LASTING),
    'has no free connection': noConnection,
    'has the table locked by an ALTER TABLE': () =>
      transaction('alter table hotels add column whatever text'),
  };
  it.each(Object.entries(faults))('%s', async (_, make) => {
    await follows(bare, 2);
    await filled();
    const fault = make();
    await fault.begin();
    try {
      await expect.poll(() => statusOfCold(bare)).toBe(503);
      const load = new SteadyLoad(bare, REQUESTS);
      await load.answers(REQUESTS.length);
      expect(await load.stop()).toMatchObject(ALL_ANSWERED);
      expect(await statusOfCold(bare)).toBe(503);
    } finally {
      await fault.end();
    }
    await expect.poll(() => statusOfCold(bare)).toBe(200);
  });
});

describe('every request is answered, or rejected until connections are replaced, when PostgreSQL', () => {
  const faults: Record<string, () => Fault> = {
    ...ofServer(() => system.postgres, ['has lost the far end of every connection']),
    'has terminated every backend': () => ({ begin: terminate, end: () => {} }),
    'has a hundred rows locked by an UPDATE': () =>
      transaction("update hotels set name = 'never seen' where id like 'chaos-_'"),
  };
  it.each(Object.entries(faults))('%s', async (_, make) => {
    await follows(bare, 2);
    const fault = make();
    const load = new SteadyLoad(bare, REQUESTS);
    await fault.begin();
    await load.answers(SOME);
    await expect.poll(() => statusOfCold(bare)).toBe(200);
    await fault.end();
    await follows(bare, 2);
    expect((await load.stop()).faults).toEqual([]);
  });
});

/** Redis that loads a snapshot of many keys, and says LOADING meanwhile. */
const loading = (): Fault => ({
  begin: async () => {
    const { client, server } = system.redis;
    await client.save();
    await server.kill();
    // a pause for each key: it is loaded when the pauses end, and not before
    const pauses = ['--key-load-delay', '50000', '--loading-process-events-interval-bytes', '1024'];
    await server.restart(pauses, /Server initialized/);
  },
  end: async () => {
    const client = new Redis(system.redis.url, { enableReadyCheck: false, protocol: 2 });
    const said = () => client.get('any').catch((error: Error) => error.message);
    expect(await said()).toMatch(/^LOADING/);
    await client.config('SET', 'key-load-delay', '0');
    await expect.poll(said).toBeNull();
    client.disconnect();
  },
});

/** Redis whose memory is full, under this policy. */
const full = (policy: string, isFull: () => Promise<void>): Fault => ({
  begin: async () => {
    const { client } = system.redis;
    const used = Number(/used_memory:(\d+)/.exec(await client.info('memory'))![1]);
    await client.config('SET', 'maxmemory-policy', policy);
    await client.config('SET', 'maxmemory', String(Math.round(0.9 * used)));
    await isFull();
  },
  end: async () => {
    await system.redis.client.config('SET', 'maxmemory', '0');
    await system.redis.client.config('SET', 'maxmemory-policy', 'noeviction');
  },
});

describe('no request fails while Redis', () => {
  const faults: Record<string, () => Fault> = {
    ...ofServer(() => system.redis, [...LASTING, 'responds late']),
    ...ofServer(
      () => system.redis,
      ['has lost the far end of every connection', 'has reset every connection'],
    ),
    'replies LOADING': loading,
    'replies READONLY': () => ({
      begin: () => system.redis.client.replicaof('127.0.0.1', 1),
      end: () => system.redis.client.replicaof('NO', 'ONE'),
    }),
    'replies OOM to writes': () =>
      full('noeviction', () => expect(system.redis.client.set('any', 'thing')).rejects.toThrow(/^OOM/)),
    'evicts because its memory is full': () =>
      full('allkeys-lru', async () => {
        const evicted = async () =>
          Number(/evicted_keys:(\d+)/.exec(await system.redis.client.info('stats'))![1]);
        const before = await evicted();
        await expect.poll(evicted).toBeGreaterThan(before);
      }),
    'is emptied': () => ({ begin: () => system.redis.client.flushall(), end: () => {} }),
  };
  const opening: string[] = [...LASTING, 'responds late', 'replies LOADING'];
  it.each(Object.entries(faults))('%s', async (name, make) => {
    const fault = make();
    const load = new SteadyLoad(bare, REQUESTS);
    await load.answers(SOME);
    await fault.begin();
    if (opening.includes(name)) await expect.poll(() => isOpen('redis')).toBeGreaterThan(0);
    await load.answers(SOME);
    await fault.end();
    await expect.poll(() => isOpen('redis')).toBe(0);
    const hits = () => bare.metric('hotel_api_cache_lookups_total', REDIS_HITS);
    const before = await hits();
    await expect.poll(hits).toBeGreaterThan(before);
    expect(await load.stop()).toMatchObject(ALL_ANSWERED);
  });
});

describe('what is in the local cache is served, and the rest rejected at once, while both', () => {
  it('are frozen', async () => {
    await follows(local, 1);
    const misses = () => local.metric('hotel_api_cache_lookups_total', { tier: 'local', result: 'miss' });
    const missed = async () => {
      const before = await misses();
      for (const { path, body } of REQUESTS) await (body ? local.post(path, body) : local.get(path));
      return (await misses()) - before;
    };
    await expect.poll(missed).toBe(0);
    const faults = [system.redis, system.postgres].map((server) => faultsOf(server)['is frozen']);
    await Promise.all(faults.map(({ begin }) => begin()));
    try {
      await expect.poll(() => statusOfCold(local)).toBe(503);
      const load = new SteadyLoad(local, REQUESTS);
      await load.answers(REQUESTS.length);
      expect(await load.stop()).toMatchObject(ALL_ANSWERED);
    } finally {
      await Promise.all(faults.map(({ end }) => end()));
    }
    await expect.poll(() => statusOfCold(local)).toBe(200);
    await follows(local, 1);
  });
});
