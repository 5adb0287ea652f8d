import { randomBytes } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { beforeAll, expect, it } from 'vitest';
import { AllWorkers, named } from '../support/all-workers.ts';
import { closeAtEnd, temporaryFolder } from '../support/cleanup.ts';
import { freshDatabase } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import { OwnCluster } from '../support/own-cluster.ts';
import { addressOf } from '../support/postgres-client.ts';
import { type Service, startService } from '../support/service.ts';

await needs('redis-server');

const HOTELS = Array.from({ length: 30 }, (_, i) => ({ id: `h${i}` }));

let folder: string;

/** Replaces a file atomically, as a mounted Secret changes. */
async function write(name: string, content: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(`${path}.new`, `${content}\n`);
  await rename(`${path}.new`, path);
  return path;
}

const reloads = (service: Service, variable: string) =>
  service.logs().filter((line) => line.includes('address reloaded') && line.includes(variable)).length;

const rejections = (service: Service) =>
  service.logs().filter((line) => line.includes('address file rejected')).length;

/** Starts a service on the Redis of a file. `hits` requests every hotel and returns the number of hits of Redis so far. */
async function startOnRedis(file: string): Promise<{ service: Service; hits: () => Promise<number> }> {
  const service = await startService({
    redis: false,
    hotels: HOTELS,
    env: { REDIS_URL_FILE: file, L1_MAX_BYTES: '0' },
  });
  const hits = async () => {
    for (const { id } of HOTELS) expect((await service.get(`/hotels/${id}`)).status).toBe(200);
    return service.metric('hotel_api_cache_lookups_total', { tier: 'redis', result: 'hit' });
  };
  return { service, hits };
}

/** Changes a hotel and waits until every worker serves the change. */
async function changesArrive(service: Service): Promise<void> {
  await service.sql`update hotels set name = 'by the other password'`;
  await (await AllWorkers.of(service)).until('/hotels/h7', named('by the other password'));
}

beforeAll(async () => {
  folder = await temporaryFolder('hotel-api-addresses-');
});

it('a new login of PostgreSQL is used without a restart, by requests and by what follows the log', async () => {
  const database = await freshDatabase();
  const { sql } = database;
  const suffix = randomBytes(4).toString('hex');
  const [before, after] = [`before_${suffix}`, `after_${suffix}`];
  for (const login of [before, after])
    await sql.unsafe(`create role ${login} login password '${login}' in role hotel_api_serve`);
  closeAtEnd('logins', async () => {
    for (const login of [before, after]) await sql.unsafe(`drop role if exists ${login}`);
  });
  const urlOf = (login: string) => addressOf(database.ownerUrl, { username: login, password: login });
  const file = await write('postgres', urlOf(before));
  const service = await startService({
    database,
    redis: false,
    hotels: HOTELS,
    env: { DATABASE_URL: '', DATABASE_URL_FILE: file },
  });
  const logins = async () => {
    const rows = await sql<{ usename: string }[]>`
      select distinct usename from pg_stat_activity where application_name like 'hotel-api %' and datname = current_database()`;
    return rows.map(({ usename }) => usename);
  };
  expect(await logins()).toEqual([before]);
  // the primary and the worker
  const used = reloads(service, 'DATABASE_URL');
  await write('postgres', urlOf(after));
  await expect.poll(() => reloads(service, 'DATABASE_URL')).toBe(used + 2);
  // the sessions of the old login end, as a provider would end them
  await sql.unsafe(`alter role ${before} nologin`);
  await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${before}`;
  await expect.poll(logins).toEqual([after]);
  await expect.poll(async () => (await service.get('/hotels/h7')).status).toBe(200);
  await sql`update hotels set name = 'by the other login'`;
  await (await AllWorkers.of(service)).until('/hotels/h7', named('by the other login'));
  expect(service.logs().join('\n')).not.toContain(`${after}:`);

  // invalid content is reported and not used
  await write('postgres', 'postgres://a b@[');
  await expect.poll(() => rejections(service)).toBe(2);
  expect((await service.get('/hotels/h8')).status).toBe(200);
  await service.stop();
});

it('an address is used as soon as the certificate that it names is there', async () => {
  const database = await freshDatabase();
  const file = await write('early', database.url);
  const env = { DATABASE_URL: '', DATABASE_URL_FILE: file };
  const service = await startService({ database, redis: false, hotels: HOTELS, env });
  const authority = join(folder, 'authority.crt');
  await write('early', `${database.url}?sslmode=verify-ca&sslrootcert=${authority}`);
  await expect.poll(() => rejections(service)).toBe(2);
  expect(reloads(service, 'DATABASE_URL')).toBe(0);
  expect((await service.get('/hotels/h7')).status).toBe(200);
  await write('authority.crt', rootCertificates[0]!);
  await expect.poll(() => reloads(service, 'DATABASE_URL')).toBe(2);
  await service.stop();
});

it('a new password of a Redis Cluster is used without a restart, also by connections to new nodes', async () => {
  const cluster = await OwnCluster.start('user hotel-api on >first ~* &* +@all');
  const file = await write('redis-cluster', cluster.url('first'));
  const { service, hits } = await startOnRedis(file);
  await expect.poll(hits).toBeGreaterThan(0);
  const onEachNode = (...command: [string, ...string[]]) =>
    Promise.all(cluster.nodes.map(({ admin }) => admin.call(...command)));
  await onEachNode('ACL', 'SETUSER', 'hotel-api', 'resetpass', '>second');
  await write('redis-cluster', cluster.url('second'));
  await expect.poll(() => reloads(service, 'REDIS_URL')).toBe(2);
  // ioredis makes another connection for each that ends, as for a node that joins
  await onEachNode('CLIENT', 'KILL', 'USER', 'hotel-api');
  await expect.poll(() => service.metric('hotel_api_breaker_open', { dependency: 'redis' })).toBe(0);
  // hits need connections that write: the cluster no longer holds what was written before
  await Promise.all(cluster.masters.map(({ admin }) => admin.flushall()));
  const before = await hits();
  await expect.poll(hits).toBeGreaterThan(before + HOTELS.length);
  await changesArrive(service);
  await service.stop();
});
