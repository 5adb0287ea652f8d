import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { AllWorkers, status } from '../support/all-workers.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { type OwnServer, ownRedis, redisAt } from '../support/own-server.ts';
import { pathOf } from '../support/programs.ts';
import { type Service, startService } from '../support/service.ts';
import { within } from '../support/stall-detector.ts';

await needs('faketime', 'redis');
const library = await pathOf('faketime');

const HOTELS = 60;
/** Time for which the primary, and with it the change feed, is stopped. */
const STOPPED_MS = 12_000;
/** Time after a change, or after the primary continues, from which nothing older is served. */
const BOUND_MS = 5_000;
/** Time until the feed counts as silent, and a little longer. */
const READ_MS = 2_000;
const WORKERS = 2;
const IDS = Array.from({ length: HOTELS }, (_, i) => `h${i}`);
const hotels = IDS.map((id) => ({ id, channel_id: id, name: 'old' }));
const BATCH = { channel_ids: IDS };

interface Scene {
  service: Service;
  allWorkers: AllWorkers;
  /** key that every worker has used, and `change` revokes */
  key: string;
}

/** Starts a service that has written every hotel and a key to Redis. */
async function warm(service: Service): Promise<Scene> {
  const allWorkers = await AllWorkers.of(service);
  const key = await insertKey(service.sql, []);
  await allWorkers.until('/hotels/h0', status(200), 10_000, key);
  for (let i = 0; i < 2; i++)
    for (const response of await allWorkers.post('/hotels/channel/batch', BATCH))
      expect(response.json()).toHaveLength(HOTELS);
  return { service, allWorkers, key };
}

async function change({ service, key }: Omit<Scene, 'allWorkers'>): Promise<void> {
  await service.sql`update hotels set name = 'new'`;
  await service.sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
}

/** Waits until every worker returns every hotel in its present state, and rejects the key. */
async function expectNew({ allWorkers, key }: Scene): Promise<void> {
  for (const response of await allWorkers.post('/hotels/channel/batch', BATCH)) {
    const names: string[] = response.json().map(({ name }: { name: string }) => name);
    expect(names).toEqual(new Array(HOTELS).fill('new'));
  }
  for (const response of await allWorkers.get('/hotels/h0', key)) expect(response.status).toBe(401);
}

interface WithRedis {
  redis: Redis;
  server: OwnServer;
  service: Service;
}

/** Starts a service with a Redis of its own. */
async function withRedis(): Promise<WithRedis> {
  const { server, url } = await ownRedis();
  const redisDatabase = redisAt(url);
  const service = await startService({ workers: WORKERS, redisDatabase, hotels });
  return { redis: redisDatabase.client, server, service };
}

// most of their time is that of a stopped primary
describe.concurrent('values read from Redis while the primary is frozen are dropped afterwards:', () => {
  /** Returns a function that restores the present content of Redis. */
  const ways: [string, (own: WithRedis) => Promise<() => Promise<void>>][] = [
    [
      'Redis is killed and restarts with an old dump',
      async ({ redis, server }) => {
        await redis.save();
        return async () => {
          await server.kill();
          await server.restart();
        };
      },
    ],
    [
      'Redis is restored from an old dump',
      async ({ redis }) => {
        const work = redis.multi().flushall();
        for (const key of await redis.keys('*')) work.restore(key, 0, (await redis.dumpBuffer(key))!);
        return async () => void (await work.exec());
      },
    ],
  ];
  it.each(ways)('%s', async (_, takeDump) => {
    const own = await withRedis();
    const { service } = own;
    const { key } = await warm(service);
    const restore = await takeDump(own);
    await change({ service, key });
    // workers that have received no change
    const pids = await service.workerPids();
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await within(
      20_000,
      () => service.workerPids(),
      (found) => expect(found.filter((pid) => !pids.includes(pid))).toHaveLength(WORKERS),
    );
    await service.ready();
    const allWorkers = await AllWorkers.of(service);
    process.kill(service.pid, 'SIGSTOP');
    const untilMs = performance.now() + STOPPED_MS;
    await restore();
    // the feed is not silent for long, otherwise PostgreSQL would be read
    const beganMs = performance.now();
    while (performance.now() < beganMs + READ_MS) await allWorkers.post('/hotels/channel/batch', BATCH);
    // other keys are read meanwhile, and no hotel is read again
    for (let i = 0; performance.now() < untilMs; i++) await allWorkers.get(`/hotels/nobody-${i}`);
    process.kill(service.pid, 'SIGCONT');
    await sleep(BOUND_MS);
    await expectNew({ service, allWorkers, key });
  });
});

describe.concurrent('after a step of the wall clock of a service', () => {
  it.each([
    ['back by 3 hours', -10_800_000],
    ['forward by 3 hours', 10_800_000],
  ])('%s while the change feed is silent, changes of that time are visible after 5 s', async (_, byMs) => {
    const clock = await FakeClock.make(library!);
    const scene = await warm(await startService({ workers: WORKERS, hotels, env: clock.env }));
    process.kill(scene.service.pid, 'SIGSTOP');
    try {
      await clock.set(clock.now() + byMs);
      await change(scene);
      await sleep(BOUND_MS);
      await expectNew(scene);
    } finally {
      process.kill(scene.service.pid, 'SIGCONT');
    }
    await expectNew(scene);
  });
});
