import { writeFile } from 'node:fs/promises';
import { beforeAll, expect, it } from 'vitest';
import { AllWorkers, named } from '../support/all-workers.ts';
import { Authority } from '../support/certificates.ts';
import { needs } from '../support/needs.ts';
import { type OwnServer, ownRedis, tlsOptions } from '../support/own-server.ts';
import { untilRedisServes } from '../support/redis-hits.ts';
import { startService } from '../support/service.ts';

await needs('redis-server', 'openssl');

const PASSWORD = 'p@ss,word/';
const HOTELS = Array.from({ length: 20 }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}` }));
const BATCH = { channel_ids: HOTELS.map(({ channel_id }) => channel_id) };

let authority: Authority;
/** address for the service */
let url: string;
let server: OwnServer;

beforeAll(async () => {
  authority = await Authority.create();
  const files = { ...(await authority.certify('redis', 'IP:127.0.0.1')), authority: authority.certificate };
  await writeFile(
    authority.file('users.acl'),
    `user default off\nuser hotel-api on >${PASSWORD} ~* resetchannels +@all -@dangerous +info\n`,
  );
  const users = ['--aclfile', authority.file('users.acl')];
  ({ server } = await ownRedis((port) => [...tlsOptions(port, files), ...users]));
  url = `rediss://hotel-api:${encodeURIComponent(PASSWORD)}@127.0.0.1:${server.port}/0`;
});

it('Redis is used over TLS, as an ACL user, if NODE_EXTRA_CA_CERTS names its authority', async () => {
  const service = await startService({
    hotels: HOTELS,
    redis: false,
    // without a local cache, every response uses Redis
    env: {
      ...{ REDIS_URL: url, NODE_EXTRA_CA_CERTS: authority.certificate },
      ...{ L1_MAX_BYTES: '0', REDIS_TIMEOUT_MS: '10000' },
    },
  });
  await untilRedisServes(service, BATCH);
  // a worker may serve before its connection is ready
  const openings = () => service.metric('hotel_api_breaker_openings_total', { dependency: 'redis' });
  const openedBefore = await openings();
  await service.sql`update hotels set name = 'over TLS'`;
  await (await AllWorkers.of(service)).until('/hotels/h3', named('over TLS'));
  expect(await openings()).toBe(openedBefore);
});

it('a server of an unknown authority is not trusted: PostgreSQL is read, and the log contains the reason', async () => {
  const service = await startService({
    hotels: HOTELS,
    redis: false,
    env: { REDIS_URL: url, L1_MAX_BYTES: '0' },
  });
  for (let i = 0; i < 5; i++)
    expect((await service.post('/hotels/channel/batch', BATCH)).json()).toHaveLength(HOTELS.length);
  await expect.poll(() => service.metrics()).toMatch(/breaker_open{dependency="redis"} [1-9]/);
  expect(await service.metrics()).not.toMatch(/cache_lookups_total{tier="redis",result="hit"} [1-9]/);
  expect(service.logs().join('\n')).toMatch(/not connected to Redis: .*certificate/);
  expect(service.logs().join('\n')).not.toContain(PASSWORD);
});

it('its password is in no response, no metric and no line of the trace log, before and during an outage', async () => {
  const service = await startService({
    hotels: HOTELS,
    redis: false,
    env: {
      ...{ REDIS_URL: url, NODE_EXTRA_CA_CERTS: authority.certificate },
      ...{ L1_MAX_BYTES: '0', LOG_LEVEL: 'trace' },
    },
  });
  const seen: string[] = [];
  const sendAll = async () => {
    const responses = [
      ...(await Promise.all(
        ['/hotels', '/hotels/h1', '/hotels/nowhere', '/nowhere', '/openapi.json', '/docs'].map((path) =>
          service.get(path),
        ),
      )),
      await service.post('/hotels/channel/batch', BATCH),
      await service.post('/hotels/channel/batch', '{'),
      await service.get('/hotels/h1', { key: 'none' }),
      ...(await Promise.all(['/metrics', '/readyz?verbose', '/livez'].map((path) => service.admin(path)))),
    ];
    for (const { headers, text } of responses) seen.push(JSON.stringify(headers), text);
  };
  await sendAll();
  await service.sql`update hotels set name = 'with a password'`;
  await (await AllWorkers.of(service)).until('/hotels/h3', named('with a password'));
  await sendAll();
  expect(await service.metrics()).toMatch(/cache_lookups_total{tier="redis",result="hit"} [1-9]/);
  await server.kill();
  await expect
    .poll(async () => {
      await sendAll();
      return service.metrics();
    })
    .toMatch(/breaker_open{dependency="redis"} [1-9]/);
  await service.stop();
  expect(service.logs().some((line) => line.includes('Redis'))).toBe(true);
  for (const form of [PASSWORD, encodeURIComponent(PASSWORD), Buffer.from(PASSWORD).toString('base64')])
    expect([...seen, ...service.logs()].filter((text) => text.includes(form))).toEqual([]);
});
