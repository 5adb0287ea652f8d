import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, it } from 'vitest';
import { AllWorkers, named } from '../support/all-workers.ts';
import { Authority } from '../support/certificates.ts';
import { needs } from '../support/needs.ts';
import { OwnCluster } from '../support/own-cluster.ts';
import { REDIS_HITS, untilRedisServes } from '../support/redis-hits.ts';
import { startService } from '../support/service.ts';

await needs('redis-server', 'openssl');

const RULES = fileURLToPath(new URL('../../k8s/components/redis-acl/users-cluster.acl', import.meta.url));
const PASSWORD = 'secret, of the test';
const HOTELS = Array.from({ length: 60 }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}` }));
const BATCH = { channel_ids: HOTELS.map(({ channel_id }) => channel_id) };

let authority: Authority;
let cluster: OwnCluster;
/** one name, as for managed clusters, whose certificate has no IP address */
let url: string;

beforeAll(async () => {
  authority = await Authority.create();
  const files = await authority.certify('redis', 'DNS:localhost');
  const rules = (await readFile(RULES, 'utf8')).replace('PASSWORD_SHA256', hash('sha256', PASSWORD));
  cluster = await OwnCluster.start(rules, { ...files, authority: authority.certificate });
  url = cluster.url(PASSWORD).replaceAll('redis://', 'rediss://').replaceAll('127.0.0.1', 'localhost');
});

it.each(['hostname', 'ip'])('a cluster over TLS by name is used if nodes announce their %s', async (kind) => {
  for (const { admin } of cluster.masters) await admin.config('SET', 'cluster-preferred-endpoint-type', kind);
  const service = await startService({
    hotels: HOTELS,
    redis: false,
    env: {
      ...{ REDIS_URL: url, NODE_EXTRA_CA_CERTS: authority.certificate },
      ...{ L1_MAX_BYTES: '0', REDIS_TIMEOUT_MS: '10000' },
    },
  });
  await untilRedisServes(service, BATCH);
  // a worker may serve before its connections are ready
  const openings = () => service.metric('hotel_api_breaker_openings_total', { dependency: 'redis' });
  const openedBefore = await openings();
  await service.sql`update hotels set name = ${`over TLS, by ${kind}`}`;
  await (await AllWorkers.of(service)).until('/hotels/h3', named(`over TLS, by ${kind}`));
  expect(await openings()).toBe(openedBefore);
  await service.stop();
});

it('nodes with a certificate of an unknown authority are not used, and the log contains the TLS error', async () => {
  const service = await startService({
    hotels: HOTELS,
    redis: false,
    env: { REDIS_URL: url, L1_MAX_BYTES: '0' },
  });
  for (let i = 0; i < 5; i++)
    expect((await service.post('/hotels/channel/batch', BATCH)).json()).toHaveLength(HOTELS.length);
  await expect
    .poll(() => service.metric('hotel_api_breaker_open', { dependency: 'redis' }))
    .toBeGreaterThan(0);
  expect(await service.metric('hotel_api_cache_lookups_total', REDIS_HITS)).toBe(0);
  expect(
    service
      .logs()
      .filter((line) => line.includes('"dependency":"redis"'))
      .join('\n'),
  ).toMatch(/certificate/);
});
