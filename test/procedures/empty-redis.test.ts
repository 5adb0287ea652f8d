import { describe, expect, it } from 'vitest';
import { AllWorkers, named } from '../support/all-workers.ts';
import { needs } from '../support/needs.ts';
import { ownRedis, redisAt } from '../support/own-server.ts';
import { startBeside, startService } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';
import { Operator } from './operator.ts';
import { DEADLINES, REQUESTS, ROWS } from './requests.ts';

await needs('bash', 'redis-cli', 'redis-server');

describe('Redis', () => {
  it('is emptied under load: no request fails, no response is stale, and it fills again', async () => {
    const { url } = await ownRedis();
    const redisDatabase = redisAt(url);
    const service = await startService({ redisDatabase, hotels: ROWS });
    // a service without local cache reads every hotel from Redis
    const bare = await startBeside(service, { env: { ...DEADLINES, L1_MAX_BYTES: '0' } });
    const load = new SteadyLoad({ port: bare.port, fullKey: service.fullKey }, REQUESTS);
    await load.answers(REQUESTS.length);
    const hotelsInRedis = async () => (await redisDatabase.client.keys('*:h:chaos-*')).length;
    expect(await hotelsInRedis()).toBeGreaterThanOrEqual(REQUESTS.length);

    const operator = await Operator.set({ CACHE_ADMIN_URL: url });
    expect(await operator.types('redis-cli -u "$CACHE_ADMIN_URL" flushall async')).toBe('OK\n');
    await service.sql`update hotels set name = 'changed' where id = 'chaos-500'`;
    const allWorkers = await AllWorkers.of(service, bare);
    await allWorkers.until('/hotels/chaos-500', named('changed'));
    await expect.poll(hotelsInRedis).toBeGreaterThanOrEqual(REQUESTS.length);
    expect(await load.stop()).toMatchObject(ALL_ANSWERED);
  });
});
