import { expect } from 'vitest';
import type { Service } from './service.ts';
import { within } from './stall-detector.ts';

export const REDIS_HITS = { tier: 'redis', result: 'hit' };

/** Requests a batch, whose hotels all exist, until the service has read them from Redis. */
export async function untilRedisServes(service: Service, batch: { channel_ids: string[] }): Promise<void> {
  const { length } = batch.channel_ids;
  const send = async () => {
    expect((await service.post('/hotels/channel/batch', batch)).json()).toHaveLength(length);
    return service.metric('hotel_api_cache_lookups_total', REDIS_HITS);
  };
  await within(5_000, send, (hits) => expect(hits).toBeGreaterThan(length));
}
