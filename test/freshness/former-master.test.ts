import { expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { insertKey } from '../support/key.ts';
import { linesOf } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { ownRedis, redisAt } from '../support/own-server.ts';
import { FaultProxy } from '../support/proxy.ts';
import { REDIS_HITS, untilRedisServes } from '../support/redis-hits.ts';
import { startBeside, startService } from '../support/service.ts';

await needs('redis-server');

const IDS = Array.from({ length: 40 }, (_, i) => `h${i}`);
const BATCH = { channel_ids: IDS };
const BOUND_MS = 5_000;

it('an instance whose connections lead to a former master serves nothing old, and uses the present one when they lead to it', async () => {
  const present = await ownRedis();
  const { client } = redisAt(present.url);
  const hotels = IDS.map((id) => ({ id, channel_id: id, name: 'old' }));
  const service = await startService({
    redisDatabase: redisAt(present.url),
    hotels,
    env: { L1_MAX_BYTES: '0' },
  });
  const key = await insertKey(service.sql, []);
  await (await AllWorkers.of(service)).until('/hotels/h0', status(200), 10_000, key);
  await untilRedisServes(service, BATCH);

  // a copy of the present content that follows no longer, as a master that was cut off from the others
  const former = await ownRedis();
  const { client: ofFormer } = redisAt(former.url);
  await ofFormer.replicaof(client.options.host!, client.options.port!);
  await expect.poll(() => ofFormer.info('replication')).toContain('master_link_status:up');
  await ofFormer.replicaof('NO', 'ONE');
  await service.sql`update hotels set name = 'new'`;
  await service.sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
  await (await AllWorkers.of(service)).until('/hotels/h0', named('new'));

  const path = await FaultProxy.before(former.url);
  const redisDatabase = { ...redisAt(former.url), url: path.url };
  const others = await Promise.all(
    [String(1024 ** 2), '0'].map((L1_MAX_BYTES) =>
      startBeside(service, { redisDatabase, env: { L1_MAX_BYTES } }),
    ),
  );
  const allWorkers = await AllWorkers.of(...others);
  for (const id of IDS) await allWorkers.until(`/hotels/channel/${id}`, named('new'), BOUND_MS);
  await allWorkers.until('/hotels/h0', status(401), BOUND_MS, key);
  for (const other of others) {
    await expect.poll(() => other.metric('hotel_api_breaker_open', { dependency: 'redis' })).toBe(1);
    const reasons = linesOf(other.logs(), 'circuit breaker opened').map(({ reason }) => reason);
    expect(reasons).toEqual(["the connection leads to another server than the invalidator's"]);
  }
  for (const response of await allWorkers.post('/hotels/channel/batch', BATCH))
    expect(response.json().map(({ name }: { name: string }) => name)).toEqual(IDS.map(() => 'new'));

  path.moveTo(Number(new URL(present.url).port));
  for (const other of others) {
    const open = () => other.metric('hotel_api_breaker_open', { dependency: 'redis' });
    await expect.poll(open, { timeout: 60_000 }).toBe(0);
  }
  const hits = await others[1]!.metric('hotel_api_cache_lookups_total', REDIS_HITS);
  await allWorkers.post('/hotels/channel/batch', BATCH);
  await expect
    .poll(() => others[1]!.metric('hotel_api_cache_lookups_total', REDIS_HITS))
    .toBeGreaterThan(hits);
});
