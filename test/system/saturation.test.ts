import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { freshDatabase } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import { FaultProxy } from '../support/proxy.ts';
import { type Service, startService } from '../support/service.ts';

await needs('redis');

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

let service: Service;
let toPostgres: FaultProxy;

beforeAll(async () => {
  const database = await freshDatabase();
  toPostgres = await FaultProxy.before(database.url);
  service = await startService({
    workers: 2,
    database: { ...database, url: toPostgres.url },
    hotels: Array.from({ length: 4_000 }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}` })),
    env: { L1_MAX_BYTES: String(1024 ** 2), DATABASE_POOL_SIZE: '3', DATABASE_QUEUE_LIMIT: '50' },
  });
});

/** Returns the samples of a metric: values by the values of their labels, in the order of the exposition. */
async function valuesOf(metric: string): Promise<Record<string, number>> {
  const samples = await service.samples(metric);
  return Object.fromEntries(samples.map(({ labels, value }) => [Object.values(labels).join(' '), value]));
}
const numberOf = async (metric: string, labels = '') => (await valuesOf(metric))[labels];

/** Sends requests over enough connections to reach every worker. */
const atOnce = (send: (i: number) => Promise<unknown>) =>
  Promise.all(Array.from({ length: 16 }, (_, i) => send(i)));

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
    const before = [
      await valuesOf('hotel_api_response_body_bytes_total'),
      await valuesOf('hotel_api_request_body_bytes_total'),
    ];
    const { body, headers } = await service.get('/hotels/h1');
    await service.get('/hotels/h1', { method: 'HEAD' });
    await service.get('/hotels/h1', { headers: { 'if-none-match': headers.etag! } });
    const zipped = await service.get('/hotels?limit=100', { headers: { 'accept-encoding': 'gzip' } });
    expect(zipped.headers['content-encoding']).toBe('gzip');
    const requested = Buffer.from('{"channel_ids":["C1","C2"]}');
    const batch = await service.post('/hotels/channel/batch', requested);
    await expect
      .poll(async () => {
        const [sent, read] = [
          await valuesOf('hotel_api_response_body_bytes_total'),
          await valuesOf('hotel_api_request_body_bytes_total'),
        ];
        const BATCH = '/hotels/channel/batch';
        const rise = (route: string) => sent[route]! - before[0]![route]!;
        return [
          ...[rise('/hotels/{id}'), rise('/hotels'), rise(BATCH), rise('other')],
          read[BATCH]! - before[1]![BATCH]!,
        ];
      })
      .toEqual([body.length, zipped.body.length, batch.body.length, 0, requested.length]);
  });

  it("reports the fill level of each worker's local cache, and its evictions", async () => {
    const ids = Array.from({ length: 4_000 }, (_, i) => `C${i}`);
    await expect
      .poll(async () => {
        // until every worker has received more than it can hold
        await atOnce(async (i) => {
          const start = 1_000 * (i % 4);
          await service.post('/hotels/channel/batch', { channel_ids: ids.slice(start, start + 1_000) });
        });
        const [bytes, most] = [
          await valuesOf('hotel_api_local_cache_bytes'),
          await valuesOf('hotel_api_local_cache_max_bytes'),
        ];
        expect(most).toEqual({ 1: 1024 ** 2, 2: 1024 ** 2 });
        expect(Object.keys(bytes)).toEqual(['1', '2']);
        return Object.values(bytes).every((taken) => taken > 0.5 * 1024 ** 2 && taken <= 1024 ** 2);
      })
      .toBe(true);
    const entries = await valuesOf('hotel_api_local_cache_entries');
    expect(Object.keys(entries)).toEqual(['1 hotel', '1 absence', '2 hotel', '2 absence']);
    expect(entries['1 hotel']).toBeGreaterThan(100);
    expect(entries['1 hotel']).toBeLessThan(4_000);
    expect(await numberOf('hotel_api_local_cache_evictions_total')).toBeGreaterThan(0);
    expect(await numberOf('hotel_api_local_cache_stores_total')).toBeGreaterThan(4_000);
  });
});

describe('the lag of a change', () => {
  const lag = async () => ({
    count: (await numberOf('hotel_api_freshness_lag_seconds_count'))!,
    sum: (await numberOf('hotel_api_freshness_lag_seconds_sum'))!,
  });

  it('grows with the delay of the sequencer', async () => {
    const before = await lag();
    toPostgres.delay(100);
    await service.sql`update hotels set name = 'Late' where id = 'h8'`;
    await expect.poll(async () => (await lag()).count).toBe(before.count + 1);
    // the call of the sequencer is delayed
    expect((await lag()).sum - before.sum).toBeGreaterThan(0.1);
    toPostgres.delay(0);
  });
});
