import { describe, expect, it } from 'vitest';
import { read } from '../documents/files.ts';
import { AllWorkers } from '../support/all-workers.ts';
import { needs } from '../support/needs.ts';
import { startBehindProxy } from '../support/service.ts';

await needs('redis');

const HOTELS = 4_000;
const MAX_BYTES = 1024 ** 2;

const { version } = JSON.parse(read('package.json'));

const { service, proxy: toPostgres } = await startBehindProxy({
  workers: 2,
  hotels: Array.from({ length: HOTELS }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}` })),
  env: { L1_MAX_BYTES: String(MAX_BYTES), DATABASE_POOL_SIZE: '3', DATABASE_QUEUE_LIMIT: '50' },
});

/** Returns the samples of a metric: values by the values of their labels, in the order of the exposition. */
async function valuesOf(metric: string): Promise<Record<string, number>> {
  const samples = await service.samples(metric);
  return Object.fromEntries(samples.map(({ labels, value }) => [Object.values(labels).join(' '), value]));
}
const numberOf = async (metric: string, labels = '') => (await valuesOf(metric))[labels];

describe('an instance', () => {
  it('reports its version, and the actual and the configured number of workers', async () => {
    expect(await valuesOf('hotel_api_build_info')).toEqual({ [`${version} ${process.versions.node}`]: 1 });
    expect(await numberOf('hotel_api_workers')).toBe(2);
    expect(await numberOf('hotel_api_workers_wanted')).toBe(2);
    expect(await numberOf('hotel_api_postgres_pool_size')).toBe(2 * 3);
    expect(await numberOf('hotel_api_postgres_queue_limit')).toBe(2 * 50);
    expect((await valuesOf('process_start_time_seconds')).primary).toBeGreaterThan(1e9);
  });

  it('counts the bytes of sent and received bodies', async () => {
    const http_route = '/hotels/channel/batch';
    const counted = () =>
      Promise.all([
        service.metric('hotel_api_response_body_bytes_total', { http_route }),
        service.metric('hotel_api_request_body_bytes_total', { http_route }),
      ]);
    const [sent, received] = await counted();
    const requested = Buffer.from('{"channel_ids":["C1","C2","C3"]}');
    const headers = { 'accept-encoding': 'gzip' };
    const response = await service.post(http_route, requested, { headers });
    expect(response.headers['content-encoding']).toBe('gzip');
    await expect.poll(counted).toEqual([sent + response.body.length, received + requested.length]);
  });

  it("reports the fill level of each worker's local cache, and its evictions", async () => {
    const all = await AllWorkers.of(service);
    // more than a worker can hold
    for (let start = 0; start < HOTELS; start += 1_000) {
      const ids = Array.from({ length: 1_000 }, (_, i) => `C${start + i}`);
      await all.post('/hotels/channel/batch', { channel_ids: ids });
    }
    expect(await valuesOf('hotel_api_local_cache_max_bytes')).toEqual({ 1: MAX_BYTES, 2: MAX_BYTES });
    const isFilled = async () =>
      Object.values(await valuesOf('hotel_api_local_cache_bytes')).map(
        (bytes) => bytes > MAX_BYTES / 2 && bytes <= MAX_BYTES,
      );
    await expect.poll(isFilled).toEqual([true, true]);
    const entries = await valuesOf('hotel_api_local_cache_entries');
    expect(Object.keys(entries)).toEqual(['1 hotel', '1 absence', '2 hotel', '2 absence']);
    expect(entries['1 hotel']).toBeGreaterThan(100);
    expect(entries['1 hotel']).toBeLessThan(HOTELS);
    expect(await numberOf('hotel_api_local_cache_evictions_total')).toBeGreaterThan(0);
    expect(await numberOf('hotel_api_local_cache_stores_total')).toBeGreaterThan(HOTELS);
  });
});

it('the lag of a change grows with the delay of the sequencer', async () => {
  const count = () => service.metric('hotel_api_freshness_lag_seconds_count');
  const sum = () => service.metric('hotel_api_freshness_lag_seconds_sum');
  const [counted, summed] = [await count(), await sum()];
  // of the call of the sequencer
  toPostgres.delay(100);
  await service.sql`update hotels set name = 'Late' where id = 'h8'`;
  await expect.poll(count).toBe(counted + 1);
  expect((await sum()) - summed).toBeGreaterThan(0.1);
  toPostgres.delay(0);
});
