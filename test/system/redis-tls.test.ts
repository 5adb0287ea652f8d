import { hash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { beforeAll, expect, it } from 'vitest';
import { read } from '../documents/files.ts';
import { AllWorkers, named } from '../support/all-workers.ts';
import { Authority } from '../support/certificates.ts';
import { needs } from '../support/needs.ts';
import { OwnCluster } from '../support/own-cluster.ts';
import { ownRedis, tlsOptions } from '../support/own-server.ts';
import { REDIS_HITS, untilRedisServes } from '../support/redis-use.ts';
import { type Service, startService } from '../support/service.ts';

await needs('redis-server', 'openssl');

const RULES = read('k8s/components/redis-acl/users-cluster.acl');
const PASSWORD = 'p@ss,word/';
const HOTELS = Array.from({ length: 40 }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}` }));
const BATCH = { channel_ids: HOTELS.map(({ channel_id }) => channel_id) };

let authority: Authority;
let cluster: OwnCluster;
/** addresses for the service */
let url: string;
/** of one name, as for managed clusters, whose certificate has no IP address */
let clusterUrl: string;

beforeAll(async () => {
  authority = await Authority.create();
  const filesFor = async (names: string) => ({
    ...(await authority.certify('redis', names)),
    authority: authority.certificate,
  });
  const users = `user default off\nuser hotel-api on >${PASSWORD} ~* resetchannels +@all -@dangerous +info\n`;
  await writeFile(authority.file('users.acl'), users);
  const files = await filesFor('IP:127.0.0.1,DNS:localhost');
  const acl = ['--aclfile', authority.file('users.acl')];
  const { server } = await ownRedis((port) => [...tlsOptions(port, files), ...acl]);
  url = `rediss://hotel-api:${encodeURIComponent(PASSWORD)}@127.0.0.1:${server.port}/0`;
  const rules = RULES.replace('PASSWORD_SHA256', hash('sha256', PASSWORD));
  cluster = await OwnCluster.start(rules, files);
  clusterUrl = cluster.url(PASSWORD).replaceAll('redis://', 'rediss://').replaceAll('127.0.0.1', 'localhost');
});

/** Starts a service that needs Redis for every request, or else PostgreSQL. */
const start = (env: Record<string, string>) =>
  startService({ hotels: HOTELS, redis: false, env: { L1_MAX_BYTES: '0', LOG_LEVEL: 'trace', ...env } });

/** Stops a service. Fails if the password is in a metric or a line of the trace log, in any form. */
async function stop(service: Service): Promise<void> {
  const printed = await service.metrics();
  await service.stop();
  for (const form of [PASSWORD, encodeURIComponent(PASSWORD), Buffer.from(PASSWORD).toString('base64')])
    expect([printed, ...service.logs()].filter((text) => text.includes(form))).toEqual([]);
}

it.each([
  ['Redis', () => url, async () => {}],
  ['a cluster whose nodes announce their name', () => clusterUrl, () => announce('hostname')],
  ['a cluster whose nodes announce their address', () => clusterUrl, () => announce('ip')],
])(
  '%s is used over TLS, as an ACL user, if NODE_EXTRA_CA_CERTS names its authority',
  async (_, addressOf, prepare) => {
    await prepare();
    const trust = { NODE_EXTRA_CA_CERTS: authority.certificate, REDIS_TIMEOUT_MS: '10000' };
    const service = await start({ REDIS_URL: addressOf(), ...trust });
    await untilRedisServes(service, BATCH);
    // a worker may serve before its connections are ready
    const openings = () => service.metric('hotel_api_breaker_openings_total', { dependency: 'redis' });
    const openedBefore = await openings();
    await service.sql`update hotels set name = 'over TLS'`;
    await (await AllWorkers.of(service)).until('/hotels/h3', named('over TLS'));
    expect(await openings()).toBe(openedBefore);
    await stop(service);
  },
);

it.each([
  ['Redis', () => url],
  ['a cluster', () => clusterUrl],
])(
  '%s with a certificate of an unknown authority is not used, and the log contains the reason',
  async (_, addressOf) => {
    const service = await start({ REDIS_URL: addressOf() });
    for (let i = 0; i < 5; i++)
      expect((await service.post('/hotels/channel/batch', BATCH)).json()).toHaveLength(HOTELS.length);
    const open = () => service.metric('hotel_api_breaker_open', { dependency: 'redis' });
    await expect.poll(open).toBeGreaterThan(0);
    expect(await service.metric('hotel_api_cache_lookups_total', REDIS_HITS)).toBe(0);
    const lines = service.logs().filter((line) => line.includes('"dependency":"redis"'));
    expect(lines.join('\n')).toMatch(/certificate/);
    await stop(service);
  },
);

async function announce(kind: 'hostname' | 'ip'): Promise<void> {
  for (const { admin } of cluster.masters) await admin.config('SET', 'cluster-preferred-endpoint-type', kind);
}
