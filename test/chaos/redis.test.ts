import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { redisPrefix } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { shortOrLong } from '../support/run-length.ts';
import { decision, type FaultResult, survive } from './fault-result.ts';
import type { Fault, FaultScenario } from './fault-scenario.ts';
import { outagesOf } from './outages.ts';
import { countOutcomes, failures } from './outcome-counts.ts';
import { Fixture } from './service-fixture.ts';

await needs('redis-server');

let fixture: Fixture;
let repeating: NodeJS.Timeout;

beforeAll(async () => {
  // the local cache holds only a part of the hotels, so Redis is always needed
  fixture = await Fixture.open({
    // a stall of the machine must not exceed the deadline of PostgreSQL, which has no fault here
    env: { L1_MAX_BYTES: String(1024 ** 2), DATABASE_TIMEOUT_MS: shortOrLong('10000', '500') },
  });
});

/** Checks the promises during an outage of Redis: no request fails. */
function expectUnaffected({ during, all, usedAgainMs }: FaultScenario): FaultResult {
  const whole = countOutcomes(all);
  const { p99Ms } = countOutcomes(during);
  return decision({
    answers: [[failures(whole) === 0, `${failures(whole)} requests failed`]],
    errorReplies: [[whole.unavailable === 0, `${whole.unavailable} requests were rejected`]],
    times: [
      [p99Ms <= 200, `p99 in the fault was ${p99Ms} ms`],
      [usedAgainMs! <= 2_000, `Redis was used again after ${usedAgainMs} ms`],
    ],
  });
}

const redisIs = (context: TestContext, fault: Omit<Fault, 'dependency'>): Promise<void> =>
  survive(context, fixture, { ...fault, dependency: 'redis' }, expectUnaffected);

describe('no request fails while Redis', () => {
  it.for([
    ['is frozen', 'Redis frozen', 1_200, 5_000, 'frozen'],
    ['is killed and restarts empty', 'Redis killed, restarted empty', 800, 10_000, 'killed'],
    ['replies 200 ms later', 'Redis +200 ms', 1_000, 5_000, 'slow'],
    [
      'has lost the far end of every connection',
      'Redis half-open: every connection dead, new ones good',
      3_000,
      5_000,
      'halfOpen',
    ],
    [
      'is unreachable: connections stay open and no byte passes',
      'Redis half-open: black hole',
      1_500,
      5_000,
      'blackHole',
    ],
    [
      'is lost behind a proxy that accepts connections and ends them',
      'Redis behind a proxy: every connection accepted and ended',
      800,
      5_000,
      'ending',
    ],
  ] as const)('%s', ([, name, shortMs, longMs, outage], context) =>
    redisIs(context, { name, shortMs, longMs, ...outagesOf(fixture.redis)[outage] }),
  );

  it('has its connections reset every 200 ms', (context) =>
    redisIs(context, {
      name: 'Redis: RST every 200 ms',
      shortMs: 1_000,
      longMs: 5_000,
      begin: () => {
        repeating = setInterval(() => fixture.redis.proxy.reset(), 200);
      },
      end: () => clearInterval(repeating),
    }));

  it('restarts from a snapshot and replies LOADING meanwhile', (context) =>
    redisIs(context, {
      name: 'Redis answers LOADING',
      shortMs: 1_000,
      longMs: 5_000,
      begin: async () => {
        const { client, server } = fixture.redis;
        await client.save();
        await server.kill();
        // a pause for each key: it is loaded when the pauses end, and not before
        await server.restart(
          ['--key-load-delay', '50000', '--loading-process-events-interval-bytes', '1024'],
          /Server initialized/,
        );
      },
      end: async () => {
        const client = new Redis(fixture.redis.url, { enableReadyCheck: false, protocol: 2 });
        const send = () =>
          client.get('any').then(
            () => 'loaded',
            (error: Error) => error.message,
          );
        expect(await send()).toMatch(/^LOADING/);
        await client.config('SET', 'key-load-delay', '0');
        while ((await send()) !== 'loaded');
        client.disconnect();
      },
    }));

  it('is a replica for a while and replies READONLY', (context) =>
    redisIs(context, {
      name: 'Redis answers READONLY',
      shortMs: 1_000,
      longMs: 5_000,
      begin: async () => {
        await fixture.redis.client.replicaof('127.0.0.1', 1);
        await expect(fixture.redis.client.set('any', 'thing')).rejects.toThrow(/^READONLY/);
      },
      end: () => fixture.redis.client.replicaof('NO', 'ONE'),
    }));

  it('replies OOM to writes', (context) =>
    redisIs(context, {
      name: 'Redis answers OOM (maxmemory, noeviction)',
      shortMs: 1_000,
      longMs: 5_000,
      begin: async () => {
        await fixture.redis.client.config('SET', 'maxmemory', '1mb');
        await expect(fixture.redis.client.set('any', 'thing')).rejects.toThrow(/^OOM/);
      },
      end: () => fixture.redis.client.config('SET', 'maxmemory', '0'),
    }));

  it('evicts cached hotels because its memory is full', async (context) => {
    const { client } = fixture.redis;
    const evicted = async () => Number(/evicted_keys:(\d+)/.exec(await client.info('stats'))![1]);
    const before = await evicted();
    await redisIs(context, {
      name: 'Redis: maxmemory reached, allkeys-lru',
      shortMs: 1_000,
      longMs: 5_000,
      begin: async () => {
        const used = Number(/used_memory:(\d+)/.exec(await client.info('memory'))![1]);
        await client.config('SET', 'maxmemory-policy', 'allkeys-lru');
        await client.config('SET', 'maxmemory', String(Math.round(0.8 * used)));
      },
      end: async () => {
        await client.config('SET', 'maxmemory', '0');
        await client.config('SET', 'maxmemory-policy', 'noeviction');
      },
    });
    expect(await evicted()).toBeGreaterThan(before);
  });

  it('is emptied by FLUSHALL', (context) =>
    redisIs(context, {
      name: 'Redis: FLUSHALL every 300 ms',
      shortMs: 1_000,
      longMs: 5_000,
      begin: () => {
        repeating = setInterval(() => fixture.redis.client.flushall(), 300);
      },
      end: () => clearInterval(repeating),
    }));

  it('holds corrupt values, which are counted and replaced', async (context) => {
    const counted = () => fixture.service.metric('hotel_api_redis_invalid_values_total');
    const before = await counted();
    let corrupted = new Map<string, Buffer>();
    await redisIs(context, {
      name: 'Redis: every value corrupted',
      shortMs: 1_000,
      longMs: 5_000,
      begin: async () => {
        corrupted = await corruptAll(fixture.redis.client);
      },
      end: () => {},
    });
    await expect.poll(counted, { timeout: 60_000, interval: 200 }).toBeGreaterThan(before + 10);
    // a worker without it in its local cache has requested every hotel of the load
    const prefix = await redisPrefix(fixture.postgres.sql);
    const names = [...corrupted.keys()].filter((name) => name.startsWith(`${prefix}:h:`) && isWarm(name));
    expect(names.length).toBeGreaterThan(0);
    const left = async () => {
      const held = await Promise.all(
        names.map((name) => fixture.redis.client.getBuffer(name).catch(() => null)),
      );
      return held.filter((value, i) => value?.equals(corrupted.get(names[i]!)!)).length;
    };
    await expect.poll(left, { timeout: 60_000, interval: 200 }).toBeLessThan(names.length / 10);
  });
});

const isWarm = (name: string): boolean =>
  Number(/:chaos-(\d+)$/.exec(name)?.[1] ?? Infinity) < fixture.hotels.warm;

/** Overwrites all values. */
async function corruptAll(client: Redis): Promise<Map<string, Buffer>> {
  const corrupted = new Map<string, Buffer>();
  let last: Buffer = Buffer.from('nothing');
  for await (const names of client.scanStream({ count: 1_000 })) {
    const pipeline = client.pipeline();
    for (const name of names as string[]) {
      const held = await client.getBuffer(name);
      if (!held) continue;
      const flipped = Buffer.from(held);
      flipped[flipped.length - 5]! ^= 1;
      const value = [randomBytes(held.length), flipped, last, held.subarray(0, held.length >> 1)][
        corrupted.size % 4
      ]!;
      last = held;
      if (value.equals(held)) continue;
      corrupted.set(name, value);
      pipeline.set(name, value, 'KEEPTTL');
    }
    await pipeline.exec();
  }
  return corrupted;
}
