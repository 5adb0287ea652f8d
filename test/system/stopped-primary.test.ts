import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { AllWorkers, status } from '../support/all-workers.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { FaultProxy } from '../support/proxy.ts';
import { startBeside, startService } from '../support/service.ts';
import { unreadBytes } from '../support/tcp-connections.ts';

await needs('redis');

const IDS = Array.from({ length: 60 }, (_, i) => `h${i}`);
const BATCH = { channel_ids: IDS };
/** Time after a change from which nothing older is served. */
const BOUND_MS = 5_000;
/** Longer than a worker counts as current. */
const AFTERWARDS_MS = 2_000;

it('the answer to a poll that a stopped primary process reads after it continues is no sign of life', async () => {
  const first = await startService({
    redis: false,
    hotels: IDS.map((id) => ({ id, channel_id: id, name: 'old' })),
  });
  const proxy = await FaultProxy.before(first.database.url);
  const database = { ...first.database, url: proxy.url };
  const stopped = await startBeside(first, { workers: 2, database });
  const key = await insertKey(first.sql, []);
  const allWorkers = await AllWorkers.of(stopped);
  await allWorkers.until('/hotels/h0', status(200), 10_000, key);
  await allWorkers.post('/hotels/channel/batch', BATCH);

  const holder = await first.sql.reserve();
  // some poll is under way at any time
  proxy.delay(100, 'hotel-api follow');
  await sleep(400);
  process.kill(stopped.pid, 'SIGSTOP');
  try {
    await expect.poll(() => unreadBytes(stopped.pid, proxy.port)).toBeGreaterThan(0);
    // from now on no instance gives positions to changes, though polls succeed
    await holder`begin`;
    await holder`lock table hotel_api_sequencer in exclusive mode`;
    await first.sql`update hotels set name = 'new'`;
    await first.sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
    await sleep(BOUND_MS);
    process.kill(stopped.pid, 'SIGCONT');
    const untilMs = performance.now() + AFTERWARDS_MS;
    while (performance.now() < untilMs) {
      for (const response of await allWorkers.post('/hotels/channel/batch', BATCH)) {
        const names: string[] = response.json().map(({ name }: { name: string }) => name);
        expect(names).toEqual(new Array(IDS.length).fill('new'));
      }
      for (const response of await allWorkers.get('/hotels/h0', key)) expect(response.status).toBe(401);
    }
  } finally {
    process.kill(stopped.pid, 'SIGCONT');
    await holder`rollback`;
    holder.release();
    await proxy.heal();
  }
});

it('a value that Redis supplied before the worker ceased to be current is not served longer than others', async () => {
  const service = await startService({ env: { DATABASE_TIMEOUT_MS: '4000' } });
  await service.sql`insert into hotels (id, name) values ('h', 'old')`;
  const name = async () => (await service.get('/hotels/h')).json().name;
  await expect.poll(async () => (await service.redis!.keys('*:h:h')).length).toBe(1);
  // its worker continues
  process.kill(service.pid, 'SIGSTOP');
  try {
    await service.sql`update hotels set name = 'new'`;
    const changedAtMs = performance.now();
    // most of the time for which the worker counts as current
    await sleep(1_200);
    await name();
    await sleep(changedAtMs + BOUND_MS - performance.now());
    expect(await name()).toBe('new');
  } finally {
    process.kill(service.pid, 'SIGCONT');
  }
});
