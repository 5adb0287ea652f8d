import { expect, it } from 'vitest';
import { AllWorkers, named } from '../support/all-workers.ts';
import { linesOf } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { ownRedis, redisAt } from '../support/own-server.ts';
import { startService } from '../support/service.ts';

await needs('redis-server');

const POLL = { interval: 5, timeout: 100_000 };
const FILLER = 'x'.repeat(1_000);
const LATE = new Set([
  'it takes too long',
  'it does not answer',
  'it is not known what it missed',
  'changes were read too long ago',
]);

async function start(policy: string) {
  const { url } = await ownRedis();
  const { client } = redisAt(url);
  await client.config('SET', 'maxmemory', '4mb');
  await client.config('SET', 'maxmemory-policy', policy);
  const hotels = Array.from({ length: 20 }, (_, i) => ({ id: `h${i}` }));
  const service = await startService({ redis: false, hotels, env: { REDIS_URL: url } });
  await expect.poll(() => client.keys('*:marker'), POLL).toHaveLength(1);
  const [mark] = (await client.keys('*:marker')) as [string];
  /** Returns why generations began, except because a busy machine was late. */
  const reasons = () =>
    linesOf(service.logs(), 'Redis cache invalidated')
      .map(({ reason }) => reason!)
      .filter((reason) => !LATE.has(reason));
  return { client, service, mark, reasons };
}

it.each(['allkeys-lru', 'allkeys-random'])(
  'an eviction of the write marker by %s begins no generation',
  async (policy) => {
    const { client, service, mark, reasons } = await start(policy);
    expect(service.logs().join('\n')).toContain(`"policy":"${policy}"`);
    const before = reasons();
    const isThere = async () => (await client.exists(mark)) === 1;
    for (let evicted = 0, n = 0; evicted < 3; evicted++) {
      // hotels read between two markers are used later than the marker, which is then the least recently used
      while (await isThere()) {
        const pipeline = client.pipeline();
        for (let i = 0; i < 1_000; i++) pipeline.set(`filler:${n++}`, FILLER);
        await pipeline.exec();
      }
      // the marker is written again, and no cache is dropped
      await expect.poll(isThere, POLL).toBe(true);
      await service.sql`update hotels set name = ${`v${evicted}`}`;
      await (await AllWorkers.of(service)).until('/hotels/h3', named(`v${evicted}`));
    }
    expect(reasons()).toEqual(before);
    // without an eviction a missing marker means lost data
    await client.config('SET', 'maxmemory', '0');
    // the service has counted the last evictions once it has replaced its marker twice
    for (let i = 0; i < 2; i++) {
      const present = await client.get(mark);
      await expect.poll(() => client.get(mark), POLL).not.toBe(present);
    }
    await client.del(mark);
    await expect.poll(reasons, POLL).toEqual([...before, 'it has lost what was written']);
    await service.stop();
  },
);

it('a policy that keeps keys without a time to live causes no warning', async () => {
  const { service } = await start('volatile-lru');
  expect(service.logs().join('\n')).not.toContain('eviction policy');
  await service.stop();
});

it('a policy that is set while the service runs is warned of', async () => {
  const { client, service } = await start('volatile-lru');
  await client.config('SET', 'maxmemory-policy', 'allkeys-lfu');
  await expect.poll(() => service.logs().join('\n'), POLL).toContain('"policy":"allkeys-lfu"');
  await service.stop();
});
