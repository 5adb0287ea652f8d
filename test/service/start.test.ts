import { randomBytes } from 'node:crypto';
import postgres, { type Sql } from 'postgres';
import { beforeAll, describe, expect, it } from 'vitest';
import { OPEN_TO_ALL_LOGINS } from '../../src/postgres/logins.ts';
import { startProgram } from '../cli/program.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { notReadyReasons } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { FaultProxy } from '../support/proxy.ts';
import { insertHotels, insertKey } from '../support/rows.ts';
import { ownPort, type Service, startService } from '../support/service.ts';

await needs('redis');

/** Path to a server that becomes available later: until `heal`, connections are rejected. */
async function later(url: string): Promise<FaultProxy> {
  const proxy = await FaultProxy.before(url);
  await proxy.reject();
  return proxy;
}

describe('a service that starts before its servers, with the login of a superuser,', () => {
  /** Database of the service, which is created after its start. */
  const missing = `test_${randomBytes(6).toString('hex')}`;
  let missingUrl: string;
  let service: Service;
  let postgresProxy: FaultProxy;
  let redisProxy: FaultProxy;
  /** connection of the superuser to another database, and to that of the service once it exists */
  let server: Sql;
  let sql: Sql;
  let key: string;

  const readiness = async () => (await service.admin('/readyz')).status;
  const statusOf = async (path: string) => (await service.get(path, { key })).status;

  const reasons = () => notReadyReasons(service.logs());

  /** Resolves when this is the last reason that the service has logged; returns it. */
  async function untilReason(pattern: RegExp): Promise<string> {
    await expect.poll(() => reasons().at(-1)).toMatch(pattern);
    expect(await readiness()).toBe(503);
    expect((await service.admin('/livez')).status).toBe(200);
    return reasons().at(-1)!;
  }

  beforeAll(async () => {
    const { ownerUrl, name, sql } = await freshDatabase();
    server = sql;
    missingUrl = ownerUrl.replace(name, missing);
    // closed after the service, by force, because a failed test may leave connections
    const admin = postgres(ownerUrl, { max: 1, onnotice: () => {} });
    closeAtEnd(`database ${missing}`, async () => {
      await admin`drop database if exists ${admin(missing)} with (force)`;
      await admin.end();
    });
    const redisDatabase = await freshRedis();
    postgresProxy = await later(missingUrl);
    redisProxy = await later(redisDatabase.url);
    service = await startService({
      redisDatabase,
      workers: 2,
      awaitReady: false,
      env: { DATABASE_URL: postgresProxy.url, REDIS_URL: redisProxy.url },
    });
  });

  it('is alive and not ready without PostgreSQL', async () => {
    await untilReason(/ECONNREFUSED/);
    expect(await service.metrics()).toContain('# TYPE hotel_api_');
    await expect(service.get('/hotels/h0')).rejects.toThrow(/ECONNREFUSED/);
  });

  it('is not ready without its database, and without the schema, and reports what to do', async () => {
    await postgresProxy.heal();
    await untilReason(new RegExp(`^database "${missing}" does not exist$`));
    await server`create database ${server(missing)}`;
    await untilReason(/schema lacks sql\/001-hotels\.sql\. Run: hotel-api migrate$/);
    // by the next attempt the tables are there, and hidden
    await postgresProxy.reject();
    const migrated = await startProgram(['migrate'], { DATABASE_URL: missingUrl }).outcome;
    expect(migrated).toMatchObject({ code: 0, stderr: `${OPEN_TO_ALL_LOGINS}\n` });
  });

  it('is not ready while row-level security hides the hotels, and reports what to do', async () => {
    sql = postgresClient(missingUrl);
    await insertHotels(
      sql,
      Array.from({ length: 500 }, (_, i) => ({ id: `h${i}` })),
    );
    key = await insertKey(sql, []);
    await sql`alter table hotels enable row level security`;
    await sql`alter table schema_migrations enable row level security`;
    // the service does not read it
    await sql`alter table hotel_api_secrets enable row level security`;
    await sql`create policy others on hotels to pg_monitor using (true)`;
    await sql`create policy writers on hotels for update using (true)`;
    await postgresProxy.heal();
    const reason = await untilReason(
      /^Row-level security hides all rows of hotels, schema_migrations from hotel_api_serve\. Run, /,
    );
    await sql.unsafe(reason.slice(reason.indexOf('create policy')));
    await service.ready();
    expect(await statusOf('/hotels/h0')).toBe(200);
    // a reason is logged once, not at every attempt
    const repeated = reasons().filter((each, i) => each === reasons()[i - 1]);
    expect([reasons().length > 3, repeated]).toEqual([true, []]);
  });

  it('is ready without Redis, and uses it once it is there', async () => {
    expect(await service.redis!.dbsize()).toBe(0);
    await redisProxy.heal();
    let next = 1;
    const isUsed = async () => {
      // each is new, so no worker has cached it
      expect(await statusOf(`/hotels/h${next++}`)).toBe(200);
      return service.redis!.keys('*:h:*');
    };
    await expect.poll(isUsed).not.toEqual([]);
  });

  it('does not share its ports with a second instance, which ends at its start', async () => {
    const [PORT, ADMIN_PORT] = [String(service.port), String(service.adminPort)];
    for (const [env, reason] of [
      [{ PORT, HOST: '0.0.0.0' }, /^hotel-api: Port \d+ of [\d.]+ is in use[^\n]*\n$/],
      [{ PORT, HOST: '127.0.0.1' }, /^hotel-api: Port \d+ of [\d.]+ is in use[^\n]*\n$/],
      [{ ADMIN_PORT }, /^hotel-api: The admin port cannot be opened: cannot listen on [\d.]+:\d+: [^\n]*\n$/],
    ] as const) {
      const own = { PORT: String(await ownPort()), ADMIN_PORT: String(await ownPort()) };
      const { outcome } = startProgram(['serve'], { DATABASE_URL: missingUrl, ...own, ...env });
      expect(await outcome).toMatchObject({ code: 1, stderr: expect.stringMatching(reason) });
    }
    const statuses = await Promise.all(Array.from({ length: 90 }, () => statusOf('/hotels/h0')));
    expect(new Set(statuses)).toEqual(new Set([200]));
  });

  it('assumes its role, read-only, for every query of clients', async () => {
    // each row is visible only to a query with the properties of its id; a superuser would see both
    await sql`create function asks_as() returns text language sql stable as $$
      select concat_ws(' ', current_user, current_setting('transaction_read_only'), current_setting('default_transaction_read_only'))
    $$`;
    const policies = await sql`select policyname as name from pg_policies where tablename = 'hotels'`;
    for (const { name } of policies) await sql`drop policy ${sql(name)} on hotels`;
    await sql`create policy probe on hotels using (id = asks_as())`;
    await insertHotels(sql, [{ id: 'hotel_api_serve on on' }, { id: 'hotel_api_serve off off' }]);
    const logins = await sql`
      select distinct usename as name from pg_stat_activity
      where datname = ${missing} and application_name like 'hotel-api %'`;
    expect(logins).toEqual([{ name: new URL(missingUrl).username }]);
    const seen = async () =>
      (await service.get('/hotels', { key })).json().map(({ id }: { id: string }) => id);
    await expect.poll(seen).toEqual(['hotel_api_serve on on']);
    expect(await statusOf('/hotels/hotel_api_serve%20on%20on')).toBe(200);
    expect(await statusOf('/hotels/hotel_api_serve%20off%20off')).toBe(404);
  });
});
