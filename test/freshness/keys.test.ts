import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf, makeKey } from '../../src/auth/key.ts';
import { freshDatabase } from '../support/database.ts';
import { Everywhere, status } from '../support/everywhere.ts';
import { type FreshnessWatch, watchFreshness } from '../support/freshness-watch.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { FaultProxy } from '../support/proxy.ts';
import { type Service, startService } from '../support/service.ts';
import { within } from '../support/stall-detector.ts';
import { withoutTriggers } from '../support/triggers.ts';

await needs('redis');

let service: Service;
let everywhere: Everywhere;
let freshness: FreshnessWatch;
let proxy: FaultProxy;

beforeAll(async () => {
  const database = await freshDatabase();
  const path = await FaultProxy.before(database.url);
  proxy = path;
  service = await startService({
    workers: 2,
    database: { ...database, url: path.url },
    hotels: [{ id: 'a', registry_id: 7 }],
  });
  const beside = { database: service.database, redisDatabase: service.redisDatabase! };
  const instances = [service, await startService({ workers: 2, ...beside })];
  everywhere = await Everywhere.of(...instances);
  freshness = watchFreshness(...instances);
});

const PATH = '/hotels/a';
const sha256 = (key: string) => Buffer.from(hashOf(key), 'hex');
const set = (key: string, change: Record<string, unknown>) =>
  service.sql`update api_keys set ${service.sql(change)} where key_sha256 = ${sha256(key)}`;

describe('a change of a key is in force everywhere within a second:', () => {
  it('one that is made after it was tried', async () => {
    const key = makeKey();
    await everywhere.until(PATH, status(401), 1_000, key);
    await service.sql`insert into api_keys (id, name, key_sha256) values ('made', 'test', ${sha256(key)})`;
    await everywhere.until(PATH, status(200), 1_000, key);
  });

  it('one that is revoked, and one that is deleted', async () => {
    const [revoked, deleted] = [await insertKey(service.sql, []), await insertKey(service.sql, [])];
    for (const key of [revoked, deleted]) await everywhere.until(PATH, status(200), 1_000, key);
    await set(revoked, { revoked_at: new Date() });
    await everywhere.until(PATH, status(401), 1_000, revoked);
    await service.sql`delete from api_keys where key_sha256 = ${sha256(deleted)}`;
    await everywhere.until(PATH, status(401), 1_000, deleted);
  });

  it('one that gains a scope and loses it', async () => {
    const key = await insertKey(service.sql, []);
    const byRegistry = '/hotels/registry/7';
    await everywhere.until(byRegistry, status(403), 1_000, key);
    await set(key, { scopes: ['registry'] });
    await everywhere.until(byRegistry, status(200), 1_000, key);
    await everywhere.until(PATH, ({ text }) => JSON.parse(text).registry_id === 7, 1_000, key);
    await set(key, { scopes: [] });
    await everywhere.until(byRegistry, status(403), 1_000, key);
    await everywhere.until(PATH, ({ text }) => JSON.parse(text).registry_id === null, 1_000, key);
  });

  it('one that expires, and one whose end is put off', async () => {
    const key = await insertKey(service.sql, []);
    await everywhere.until(PATH, status(200), 1_000, key);
    await set(key, { expires_at: new Date(Date.now() + 500) });
    await everywhere.until(PATH, status(401), 1_500, key);
    await set(key, { expires_at: new Date(Date.now() + 60_000) });
    await everywhere.until(PATH, status(200), 1_000, key);
  });

  it('one that gives its hash up for another', async () => {
    const [old, young] = [await insertKey(service.sql, []), makeKey()];
    await everywhere.until(PATH, status(200), 1_000, old);
    await everywhere.until(PATH, status(401), 1_000, young);
    await set(old, { key_sha256: sha256(young) });
    await everywhere.until(PATH, status(401), 1_000, old);
    await everywhere.until(PATH, status(200), 1_000, young);
  });
});

/** Until a statement waits for a lock in this database. */
async function untilBlocked(): Promise<void> {
  await within(
    10_000,
    () => service.sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    (blocked) => expect(blocked).not.toHaveLength(0),
  );
}

/** An instance that starts now: all it knows of keys is what Redis and PostgreSQL tell it. */
async function newcomer(): Promise<Service> {
  return startService({ database: service.database, redisDatabase: service.redisDatabase! });
}

describe('the row of a key counts, though its version is below the one that Redis holds:', () => {
  it('a valid one, inserted by a transaction that waited for the deletion of the same hash', async () => {
    const key = await insertKey(service.sql, []);
    await everywhere.until(PATH, status(200), 1_000, key);
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
    await untilBlocked();
    mayDelete!.resolve();
    await Promise.all([deleting, inserted!.promise]);
    await everywhere.until(PATH, status(401), 1_000, key);
    mayCommit!.resolve();
    await inserting;
    await everywhere.until(PATH, status(200), 1_000, key);
    const late = await newcomer();
    expect((await late.get(PATH, { key })).status).toBe(200);
    await late.stop();
  });

  it('a revoked one, in a history that lacks the last change of the key', async () => {
    const key = await insertKey(service.sql, []);
    const [before] = await service.sql`select version from api_keys where key_sha256 = ${sha256(key)}`;
    await service.sql`select setval('hotel_api_versions', nextval('hotel_api_versions') + 1000)`;
    await set(key, { name: 'changed' });
    await everywhere.until(PATH, status(200), 1_000, key);
    // as a replica that was promoted without the change
    await withoutTriggers(service.sql, async (sql) => {
      await sql`update api_keys set name = 'a test', version = ${before!.version} where key_sha256 = ${sha256(key)}`;
      await sql`select setval('hotel_api_versions', ${before!.version})`;
    });
    await set(key, { revoked_at: new Date() });
    await everywhere.until(PATH, status(401), 1_000, key);
    const late = await newcomer();
    expect((await late.get(PATH, { key })).status).toBe(401);
    await late.stop();
    await service.sql`select setval('hotel_api_versions', nextval('hotel_api_versions') + 1000)`;
    for (const answer of await everywhere.get(PATH, key)) expect(answer.status).toBe(401);
  });
});

it('while PostgreSQL is away known keys go on, unknown ones get 503, revoked ones stay revoked', async () => {
  freshness.allowAge(Number.POSITIVE_INFINITY);
  const [known, revoked, never] = [
    await insertKey(service.sql, []),
    await insertKey(service.sql, []),
    makeKey(),
  ];
  await everywhere.until(PATH, status(200), 1_000, known);
  await everywhere.until(PATH, status(200), 1_000, revoked);
  await set(revoked, { revoked_at: new Date() });
  await everywhere.until(PATH, status(401), 1_000, revoked);
  await proxy.reject();
  const untilMs = performance.now() + 7_000;
  while (performance.now() < untilMs) {
    for (const answer of await everywhere.get(PATH, known)) expect(answer.status).toBe(200);
    for (const answer of await everywhere.get(PATH, revoked)) expect(answer.status).toBe(401);
    for (const answer of await everywhere.get(PATH, never)) expect(answer.status).toBe(503);
  }
  await proxy.heal();
  await everywhere.until(PATH, status(401), 3_000, never);
  await set(known, { revoked_at: new Date() });
  await everywhere.until(PATH, status(401), 5_000, known);
});
