import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { INVALIDATOR_LOCK } from '../../src/change-feed/invalidator.ts';
import { AllWorkers, status } from '../support/all-workers.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { startBeside, startService } from '../support/service.ts';
import { unreadBytes } from '../support/tcp-connections.ts';

await needs('redis');

const IDS = Array.from({ length: 60 }, (_, i) => `h${i}`);
const BATCH = { channel_ids: IDS };
/** Time after a change from which nothing older is served. */
const BOUND_MS = 5_000;
/** Longer than a heartbeat is valid. */
const AFTERWARDS_MS = 2_000;

it('messages that a stopped primary reads after it continues do not count as heartbeats', async () => {
  const leader = await startService({
    redis: false,
    hotels: IDS.map((id) => ({ id, channel_id: id, name: 'old' })),
  });
  const follower = await startBeside(leader, { workers: 2 });
  await expect.poll(() => leader.metric('hotel_api_invalidator_active')).toBe(1);
  const key = await insertKey(leader.sql, []);
  const allWorkers = await AllWorkers.of(follower);
  await allWorkers.until('/hotels/h0', status(200), 10_000, key);
  await allWorkers.post('/hotels/channel/batch', BATCH);

  const holder = await leader.sql.reserve();
  process.kill(follower.pid, 'SIGSTOP');
  try {
    // they are buffered in the sockets of the stopped primary, after replies to what it sent before
    const sizes = new Set<number>();
    const unread = () => unreadBytes(follower.pid, Number(new URL(leader.database.url).port));
    await expect.poll(async () => sizes.add(await unread()).size).toBeGreaterThan(3);
    // from now on no instance announces changes: PostgreSQL ends its session, and the test holds the lock
    process.kill(leader.pid, 'SIGSTOP');
    await holder`select pg_advisory_lock(${INVALIDATOR_LOCK})`;
    await leader.sql`update hotels set name = 'new'`;
    await leader.sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
    await sleep(BOUND_MS);
    process.kill(follower.pid, 'SIGCONT');
    const untilMs = performance.now() + AFTERWARDS_MS;
    while (performance.now() < untilMs) {
      for (const response of await allWorkers.post('/hotels/channel/batch', BATCH)) {
        const names: string[] = response.json().map(({ name }: { name: string }) => name);
        expect(names).toEqual(new Array(IDS.length).fill('new'));
      }
      for (const response of await allWorkers.get('/hotels/h0', key)) expect(response.status).toBe(401);
    }
  } finally {
    process.kill(follower.pid, 'SIGCONT');
    process.kill(leader.pid, 'SIGCONT');
    await holder`select pg_advisory_unlock_all()`;
    holder.release();
  }
});

it('a value that Redis supplied before the silence of the feed was detected is not served longer than others', async () => {
  const service = await startService({ env: { DATABASE_TIMEOUT_MS: '4000' } });
  await expect.poll(() => service.metric('hotel_api_invalidator_active')).toBe(1);
  await service.sql`insert into hotels (id, name) values ('h', 'old')`;
  const name = async () => (await service.get('/hotels/h')).json().name;
  await expect.poll(async () => (await service.redis!.keys('*:h:h')).length).toBe(1);
  // its worker continues
  process.kill(service.pid, 'SIGSTOP');
  try {
    await service.sql`update hotels set name = 'new'`;
    const changedAtMs = performance.now();
    // most of the time that a silence takes to be detected
    await sleep(800);
    await name();
    await sleep(changedAtMs + BOUND_MS - performance.now());
    expect(await name()).toBe('new');
  } finally {
    process.kill(service.pid, 'SIGCONT');
  }
});
