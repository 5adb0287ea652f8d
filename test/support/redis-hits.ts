import { expect } from 'vitest';
import type { Service } from './service.ts';

export const REDIS_HITS = { tier: 'redis', result: 'hit' };

/** Requests a batch, whose hotels all exist, until the service has read all of them from Redis. */
export async function untilRedisServes(service: Service, batch: { channel_ids: string[] }): Promise<void> {
  const { length } = batch.channel_ids;
  const hits = () => service.metric('hotel_api_cache_lookups_total', REDIS_HITS);
  const hitsOfOne = async () => {
    const before = await hits();
    expect((await service.post('/hotels/channel/batch', batch)).json()).toHaveLength(length);
    return (await hits()) - before;
  };
  await expect.poll(hitsOfOne).toBeGreaterThanOrEqual(length);
}
