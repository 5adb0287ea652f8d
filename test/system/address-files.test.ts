import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { AllWorkers, named } from '../support/all-workers.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { freshDatabase } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import { OwnCluster } from '../support/own-cluster.ts';
import { startService } from '../support/service.ts';

await needs('redis-server');

const HOTELS = Array.from({ length: 30 }, (_, i) => ({ id: `h${i}` }));

it('a new password of a Redis Cluster is used without a restart, also by connections to new nodes', async () => {
  const folder = await temporaryFolder('hotel-api-addresses-');
  /** Replaces a file atomically, as a mounted Secret changes. */
  const write = async (name: string, content: string): Promise<string> => {
    const path = join(folder, name);
    await writeFile(`${path}.new`, `${content}\n`);
    await rename(`${path}.new`, path);
    return path;
  };
  const cluster = await OwnCluster.start('user hotel-api on >first ~* &* +@all');
  const file = await write('redis-cluster', cluster.url('first'));
  const database = await freshDatabase();
  const other = await write('database', database.url);
  const service = await startService({
    ...{ database, redis: false, hotels: HOTELS },
    env: { REDIS_URL_FILE: file, L1_MAX_BYTES: '0', DATABASE_URL: '', DATABASE_URL_FILE: other },
  });
  const logged = (message: string) => service.logs().filter((line) => line.includes(message)).length;
  /** Requests every hotel; returns the number of hits of Redis so far. */
  const hits = async () => {
    for (const { id } of HOTELS) expect((await service.get(`/hotels/${id}`)).status).toBe(200);
    return service.metric('hotel_api_cache_lookups_total', { tier: 'redis', result: 'hit' });
  };
  await expect.poll(hits).toBeGreaterThan(0);
  const onEachNode = (...command: [string, ...string[]]) =>
    Promise.all(cluster.nodes.map(({ admin }) => admin.call(...command)));
  await onEachNode('ACL', 'SETUSER', 'hotel-api', 'resetpass', '>second');
  // a fault of another file stops nothing
  await write('database', 'postgres://a b@[');
  await expect.poll(() => logged('address file rejected')).toBe(2);
  await write('redis-cluster', cluster.url('second'));
  await expect.poll(() => logged('address reloaded')).toBe(2);
  // ioredis makes another connection for each that ends, as for a node that joins
  await onEachNode('CLIENT', 'KILL', 'USER', 'hotel-api');
  await expect.poll(() => service.metric('hotel_api_breaker_open', { dependency: 'redis' })).toBe(0);
  // hits need connections that write: the cluster no longer holds what was written before
  await Promise.all(cluster.masters.map(({ admin }) => admin.flushall()));
  const before = await hits();
  await expect.poll(hits).toBeGreaterThan(before + HOTELS.length);
  await service.sql`update hotels set name = 'by the other password'`;
  await (await AllWorkers.of(service)).until('/hotels/h7', named('by the other password'));
  await service.stop();
});
