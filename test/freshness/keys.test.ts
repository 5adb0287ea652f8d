import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf, makeKey } from '../../src/auth/key.ts';
import { AllWorkers, status } from '../support/all-workers.ts';
import { FreshnessWatch } from '../support/freshness-watch.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { untilBlocked } from '../support/postgres-client.ts';
import type { FaultProxy } from '../support/proxy.ts';
import { type Service, startBehindProxy, startBeside } from '../support/service.ts';

await needs('redis');

let service: Service;
let allWorkers: AllWorkers;
let freshness: FreshnessWatch;
let proxy: FaultProxy;

beforeAll(async () => {
  ({ service, proxy } = await startBehindProxy({ workers: 2, hotels: [{ id: 'a', registry_id: 7 }] }));
  const instances = [service, await startBeside(service, { workers: 2 })];
  allWorkers = await AllWorkers.of(...instances);
  freshness = new FreshnessWatch(...instances);
});

const PATH = '/hotels/a';
const sha256 = (key: string) => Buffer.from(hashOf(key), 'hex');
const set = (key: string, change: Record<string, unknown>) =>
  service.sql`update api_keys set ${service.sql(change)} where key_sha256 = ${sha256(key)}`;

describe('a change of a key is effective everywhere within a second:', () => {
  it('a key is created after it was cached as unknown', async () => {
    const key = makeKey();
    await allWorkers.until(PATH, status(401), 1_000, key);
    await service.sql`insert into api_keys (id, name, key_sha256) values ('made', 'test', ${sha256(key)})`;
    await allWorkers.until(PATH, status(200), 1_000, key);
  });

  it('a key is revoked and accepted again, and one is deleted', async () => {
    const [revoked, deleted] = [await insertKey(service.sql, []), await insertKey(service.sql, [])];
    for (const key of [revoked, deleted]) await allWorkers.until(PATH, status(200), 1_000, key);
    await set(revoked, { revoked_at: new Date() });
    await allWorkers.until(PATH, status(401), 1_000, revoked);
    await set(revoked, { revoked_at: null });
    await allWorkers.until(PATH, status(200), 1_000, revoked);
    await service.sql`delete from api_keys where key_sha256 = ${sha256(deleted)}`;
    await allWorkers.until(PATH, status(401), 1_000, deleted);
  });

  it('a key gains and loses a scope', async () => {
    const key = await insertKey(service.sql, []);
    const byRegistry = '/hotels/registry/7';
    await allWorkers.until(byRegistry, status(403), 1_000, key);
    await set(key, { scopes: ['registry'] });
    await allWorkers.until(byRegistry, status(200), 1_000, key);
    await allWorkers.until(PATH, ({ text }) => JSON.parse(text).registry_id === 7, 1_000, key);
    await set(key, { scopes: [] });
    await allWorkers.until(byRegistry, status(403), 1_000, key);
    await allWorkers.until(PATH, ({ text }) => JSON.parse(text).registry_id === null, 1_000, key);
  });

  it('a key expires, and the expiry of one is postponed', async () => {
    const key = await insertKey(service.sql, []);
    await allWorkers.until(PATH, status(200), 1_000, key);
    await set(key, { expires_at: new Date(Date.now() + 500) });
    await allWorkers.until(PATH, status(401), 1_500, key);
    await set(key, { expires_at: new Date(Date.now() + 60_000) });
    await allWorkers.until(PATH, status(200), 1_000, key);
  });

  it('a key exchanges its hash for another', async () => {
    const [old, young] = [await insertKey(service.sql, []), makeKey()];
    await allWorkers.until(PATH, status(200), 1_000, old);
    await allWorkers.until(PATH, status(401), 1_000, young);
    await set(old, { key_sha256: sha256(young) });
    await allWorkers.until(PATH, status(401), 1_000, old);
    await allWorkers.until(PATH, status(200), 1_000, young);
  });
});

it('a key that was inserted by a transaction which waited for the deletion of the same hash is accepted', async () => {
  const key = await insertKey(service.sql, []);
  await allWorkers.until(PATH, status(200), 1_000, key);
  const [updated, mayDelete, inserted, mayCommit] = [1, 2, 3, 4].map(() => Promise.withResolvers<void>());
  const deleting = service.sql.begin(async (sql) => {
    await sql`update api_keys set name = 'updated' where key_sha256 = ${sha256(key)}`;
    updated!.resolve();
    await mayDelete!.promise;
    await sql`update api_keys set name = 'updated again' where key_sha256 = ${sha256(key)}`;
    await sql`delete from api_keys where key_sha256 = ${sha256(key)}`;
  });
  await updated!.promise;
  const inserting = service.sql.begin(async (sql) => {
    await sql`insert into api_keys (id, name, key_sha256) values ('waited', 'test', ${sha256(key)})`;
    inserted!.resolve();
    await mayCommit!.promise;
  });
  await untilBlocked(service.sql);
  mayDelete!.resolve();
  await Promise.all([deleting, inserted!.promise]);
  await allWorkers.until(PATH, status(401), 1_000, key);
  mayCommit!.resolve();
  await inserting;
  await allWorkers.until(PATH, status(200), 1_000, key);
  const late = await startBeside(service);
  expect((await late.get(PATH, { key })).status).toBe(200);
  await late.stop();
});

it('without PostgreSQL known keys are accepted, unknown ones yield 503, revoked ones remain rejected', async () => {
  freshness.allowAge(Number.POSITIVE_INFINITY);
  const [known, revoked, never] = [
    await insertKey(service.sql, []),
    await insertKey(service.sql, []),
    makeKey(),
  ];
  await allWorkers.until(PATH, status(200), 1_000, known);
  await allWorkers.until(PATH, status(200), 1_000, revoked);
  await set(revoked, { revoked_at: new Date() });
  await allWorkers.until(PATH, status(401), 1_000, revoked);
  // its creation is in the log before that; a key that was looked up before is looked up again
  await allWorkers.until(PATH, status(200), 1_000, known);
  await proxy.reject();
  const untilMs = performance.now() + 7_000;
  while (performance.now() < untilMs) {
    for (const response of await allWorkers.get(PATH, known)) expect(response.status).toBe(200);
    for (const response of await allWorkers.get(PATH, revoked)) expect(response.status).toBe(401);
    for (const response of await allWorkers.get(PATH, never)) expect(response.status).toBe(503);
  }
  await proxy.heal();
  await allWorkers.until(PATH, status(401), 3_000, never);
  await set(known, { revoked_at: new Date() });
  await allWorkers.until(PATH, status(401), 5_000, known);
});
