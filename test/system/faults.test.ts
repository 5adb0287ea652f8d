import { Redis } from 'ioredis';
import postgres, { type Sql } from 'postgres';
import { beforeAll, expect, it } from 'vitest';
import { type Fault, type FaultySystem, faultsOf, faultySystem } from '../support/faulty-system.ts';
import { hotelBody, hotelRow, requestsOf } from '../support/known-hotels.ts';
import { needs } from '../support/needs.ts';
import { REDIS_HITS } from '../support/redis-use.ts';
import type { Service } from '../support/service.ts';
import { expectAnswered, SteadyLoad } from '../support/steady-load.ts';

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
  // these tests judge responses during faults; the simulation judges the default deadlines
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

/** Resolves when a tier of the service holds every hotel of the load, under each of its ids. */
async function filled(service: Service, tier: string): Promise<void> {
  const misses = () => service.metric('hotel_api_cache_lookups_total', { tier, result: 'miss' });
  const missed = async () => {
    const before = await misses();
    for (const { path, body } of REQUESTS) await (body ? service.post(path, body) : service.get(path));
    return (await misses()) - before;
  };
  await expect.poll(missed).toBe(0);
}

const follows = (service: Service, workers: number) => expect.poll(() => isCurrent(service)).toBe(workers);

/** Ends all connections of the services; returns a row for each. */
const terminate = () => system.postgres.sql`
  select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'hotel-api %'`;

/** Faults of any server that last. From a frozen one no byte comes, as from one behind a path that is lost. */
const LASTING = [
  'is frozen',
  'is killed',
  'is behind a proxy that accepts connections and ends them',
] as const;

type Kind = keyof ReturnType<typeof faultsOf>;
const faultOf = (server: 'postgres' | 'redis', kind: Kind) => (): Fault => faultsOf(system[server])[kind];

/** Clients that take every connection of PostgreSQL. */
function noConnection(): Fault {
  const clients: Sql[] = [];
  const takesOne = () => {
    const client = postgres(system.postgres.url, { max: 1, onnotice: () => {}, fetch_types: false });
    clients.push(client);
    return client`select 1`.catch(() => undefined);
  };
  return {
    begin: async () => {
      do while (await takesOne());
      while ((await terminate()).length > 0);
    },
    end: () => Promise.all(clients.map((client) => client.end({ timeout: 0 }))),
  };
}

/** A service, and the tier that answers its requests. */
const ofRedis = () => ({ service: bare, workers: 2, tier: 'redis' });
const ofLocal = () => ({ service: local, workers: 1, tier: 'local' });

const both = (): Fault => {
  const faults = [system.redis, system.postgres].map((server) => faultsOf(server)['is frozen']);
  return {
    begin: () => Promise.all(faults.map(({ begin }) => begin())),
    end: () => Promise.all(faults.map(({ end }) => end())),
  };
};
it.each<readonly [string, () => Fault, typeof ofRedis]>([
  ...LASTING.map((kind) => [`PostgreSQL ${kind}`, faultOf('postgres', kind), ofRedis] as const),
  ['PostgreSQL has no free connection', noConnection, ofRedis],
  ['both servers are frozen', both, ofLocal],
])('cached hotels are served, and other requests rejected at once, while %s', async (_, make, from) => {
  const { service, workers, tier } = from();
  await follows(service, workers);
  await filled(service, tier);
  const fault = make();
  await fault.begin();
  try {
    await expect.poll(() => statusOfCold(service)).toBe(503);
    const load = new SteadyLoad(service, REQUESTS);
    await load.answers(REQUESTS.length);
    await expectAnswered(load);
    expect(await statusOfCold(service)).toBe(503);
  } finally {
    await fault.end();
  }
  await expect.poll(() => statusOfCold(service)).toBe(200);
  await follows(service, workers);
});

it.each<[string, () => unknown]>([
  ['has lost the far end of every connection', () => system.postgres.proxy.halfOpen()],
  ['has terminated every backend', terminate],
])(
  'every request is answered, or rejected until connections are replaced, when PostgreSQL %s',
  async (_, begin) => {
    await follows(bare, 2);
    const load = new SteadyLoad(bare, REQUESTS);
    await begin();
    await load.answers(SOME);
    await expect.poll(() => statusOfCold(bare)).toBe(200);
    await follows(bare, 2);
    expect((await load.stop()).faults).toEqual([]);
  },
);

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

/** Redis without room for another value. */
const full = (): Fault => ({
  begin: () => system.redis.client.config('SET', 'maxmemory', '1'),
  end: () => system.redis.client.config('SET', 'maxmemory', '0'),
});

const opening: Kind[] = [...LASTING, 'responds late'];
const passing: Kind[] = ['has lost the far end of every connection', 'has reset every connection'];
it.each<readonly [string, () => Fault, string]>([
  ...opening.map((kind) => [kind, faultOf('redis', kind), 'opens'] as const),
  ...passing.map((kind) => [kind, faultOf('redis', kind), ''] as const),
  ['replies LOADING', loading, 'opens'],
  ['replies OOM to writes', full, ''],
])('each request is answered, at once or when it is repeated, while Redis %s', async (_, make, breaker) => {
  const fault = make();
  const load = new SteadyLoad(bare, REQUESTS);
  await load.answers(SOME);
  await fault.begin();
  if (breaker === 'opens') await expect.poll(() => isOpen('redis')).toBeGreaterThan(0);
  await load.answers(SOME);
  await fault.end();
  await expect.poll(() => isOpen('redis')).toBe(0);
  const hits = () => bare.metric('hotel_api_cache_lookups_total', REDIS_HITS);
  const before = await hits();
  await expect.poll(hits).toBeGreaterThan(before);
  await expectAnswered(load);
});
