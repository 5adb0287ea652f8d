import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import postgres from 'postgres';
import { describe, expect, inject, it } from 'vitest';
import { OPEN_TO_ALL_LOGINS } from '../../src/cli/migrate.ts';
import { startProgram } from '../cli/program.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { notReadyReasons } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { FaultProxy } from '../support/proxy.ts';
import { insertHotels } from '../support/rows.ts';
import { ownPort, type Service, startService, stopAfterTest } from '../support/service.ts';

await needs('redis');

/** Path to a server that becomes available later: until `heal`, connections are rejected. */
async function later(url: string): Promise<FaultProxy> {
  const proxy = await FaultProxy.before(url);
  await proxy.reject();
  return proxy;
}

const readiness = (service: Service) => async () => (await service.admin('/readyz')).status;

/** Occupies a port like another program. */
async function take(): Promise<{ port: number }> {
  const port = await ownPort();
  const server = createServer();
  server.listen({ port, host: '127.0.0.1', exclusive: true });
  await once(server, 'listening');

  closeAtEnd('a taken port', async () => void server.close());
  return { port };
}

describe('a service whose PostgreSQL is unavailable at the start', () => {
  it('is alive and not ready, and becomes ready within 2 s of its start', async () => {
    const database = await freshDatabase();
    const proxy = await later(database.url);
    const service = stopAfterTest(
      await startService({
        database,
        redis: false,
        hotels: [{ id: 'a' }],
        awaitReady: false,
        env: { DATABASE_URL: proxy.url },
      }),
    );
    await expect.poll(() => notReadyReasons(service.logs()).length).toBe(1);
    expect(notReadyReasons(service.logs())[0]).toMatch(/ECONNREFUSED/);
    expect((await service.admin('/livez')).status).toBe(200);
    expect(await readiness(service)()).toBe(503);
    expect(await service.metrics()).toContain('# TYPE hotel_api_');
    await expect(service.get('/hotels/a')).rejects.toThrow(/ECONNREFUSED/);
    await proxy.heal();
    await expect.poll(readiness(service)).toEqual(200);
    expect((await service.get('/hotels/a')).status).toBe(200);
    // the reason is logged once, not at every attempt
    expect(notReadyReasons(service.logs())).toHaveLength(1);
  });

  it('is not ready without its database, reports what to do without the schema, and is ready within 2 s of the migration', async () => {
    const { sql, ownerUrl, name } = await freshDatabase();
    const missing = `test_${randomBytes(6).toString('hex')}`;
    const missingUrl = ownerUrl.replace(name, missing);
    // closed after the service, by force, because a failed test may leave connections
    const admin = postgres(ownerUrl, { max: 1, onnotice: () => {} });
    closeAtEnd(`database ${missing}`, async () => {
      await admin`drop database if exists ${admin(missing)} with (force)`;
      await admin.end();
    });
    const service = stopAfterTest(
      await startService({
        redis: false,
        awaitReady: false,
        env: { DATABASE_URL: missingUrl },
      }),
    );
    await expect
      .poll(() => notReadyReasons(service.logs()))
      .toEqual([`database "${missing}" does not exist`]);
    expect(await readiness(service)()).toBe(503);

    await sql`create database ${sql(missing)}`;
    await expect.poll(() => notReadyReasons(service.logs()).length).toBe(2);
    expect(notReadyReasons(service.logs())[1]).toMatch(
      /schema is at version 0, this release needs \d+\. Run: hotel-api migrate$/,
    );
    expect(await readiness(service)()).toBe(503);
    expect((await service.admin('/livez')).status).toBe(200);

    const migrated = await startProgram(['migrate'], { DATABASE_URL: missingUrl }).outcome;
    expect(migrated).toMatchObject({ code: 0, stderr: `${OPEN_TO_ALL_LOGINS}\n` });
    await expect.poll(readiness(service)).toEqual(200);
    expect((await service.get('/hotels')).status).toBe(401);
  });
});

it('a service from which row-level security hides the hotels is not ready, and reports what to do', async () => {
  const database = await freshDatabase();
  const { sql } = database;
  await insertHotels(sql, [{ id: 'a' }]);
  await sql`alter table hotels enable row level security`;
  await sql`alter table schema_migrations enable row level security`;
  // the service does not read it
  await sql`alter table hotel_api_secrets enable row level security`;
  await sql`create policy others on hotels to pg_monitor using (true)`;
  await sql`create policy writers on hotels for update using (true)`;
  const service = stopAfterTest(await startService({ database, redis: false, awaitReady: false }));
  await expect.poll(() => notReadyReasons(service.logs()).length).toBe(1);
  const [reason] = notReadyReasons(service.logs());
  expect(reason).toMatch(
    /^Row-level security hides all rows of hotels, schema_migrations from hotel_api_serve\. Run, /,
  );
  expect(await readiness(service)()).toBe(503);
  await sql.unsafe(reason!.slice(reason!.indexOf('create policy')));
  await expect.poll(readiness(service)).toBe(200);
  expect((await service.get('/hotels/a')).status).toBe(200);
});

describe('a service whose Redis is unavailable at the start', () => {
  it('is ready without it, and uses it within 2 s of its start', async () => {
    const redisDatabase = await freshRedis();
    const proxy = await later(redisDatabase.url);
    const hotels = Array.from({ length: 500 }, (_, i) => ({ id: `h${i}` }));
    const service = stopAfterTest(
      await startService({ redisDatabase, hotels, env: { REDIS_URL: proxy.url } }),
    );
    expect((await service.get('/hotels/h0')).status).toBe(200);
    expect(await redisDatabase.client.dbsize()).toBe(0);

    await proxy.heal();
    let next = 1;
    const isUsed = async () => {
      // each is new, so this worker has not cached it
      expect((await service.get(`/hotels/h${next++}`)).status).toBe(200);
      return redisDatabase.client.keys('*:h:*');
    };
    await expect.poll(isUsed).not.toEqual([]);
  });
});

describe('a port in use', () => {
  it('ends the start with a message if it is the admin port', async () => {
    const { port } = await take();
    const { code, stderr } = await startProgram(['serve'], {
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing',
      PORT: String(await ownPort()),
      ADMIN_HOST: '127.0.0.1',
      ADMIN_PORT: String(port),
      LOG_LEVEL: 'warn',
    }).outcome;
    expect(code).toBe(1);
    expect(stderr).toMatch(
      new RegExp(
        `^hotel-api: The admin port cannot be opened: cannot listen on 127\\.0\\.0\\.1:${port}: [^\\n]*\\n$`,
      ),
    );
  });

  it('is not shared with a second instance, which ends at its start', async () => {
    const first = stopAfterTest(await startService({ redis: false, workers: 2, hotels: [{ id: 'a' }] }));
    for (const HOST of ['0.0.0.0', '127.0.0.1']) {
      const { code, stderr } = await startProgram(['serve'], {
        DATABASE_URL: first.database.url,
        HOST,
        PORT: String(first.port),
        ADMIN_PORT: String(await ownPort()),
      }).outcome;
      expect(code).toBe(1);
      expect(stderr).toMatch(/^hotel-api: Port \d+ of [\d.]+ is in use[^\n]*\n$/);
    }
    const answers = await Promise.all(Array.from({ length: 90 }, () => first.get('/hotels/a')));
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
  });
});

describe('the role of the service', () => {
  it('is assumed, read-only, by every query for clients, even if the service logs in as a superuser', async () => {
    const database = await freshDatabase();
    const { sql, ownerUrl } = database;
    // each row is visible only to a query with the properties of its id; a superuser would see both
    await insertHotels(sql, [{ id: 'hotel_api_serve on on' }, { id: 'hotel_api_serve off off' }]);
    await sql`create function asks_as() returns text language sql stable as $$
      select concat_ws(' ', current_user, current_setting('transaction_read_only'), current_setting('default_transaction_read_only'))
    $$`;
    await sql`alter table hotels enable row level security`;
    await sql`create policy probe on hotels using (id = asks_as())`;
    const service = stopAfterTest(
      await startService({
        database,
        redis: false,
        env: { DATABASE_URL: ownerUrl, L1_MAX_BYTES: '0' },
      }),
    );
    const logins = await sql<{ application_name: string; usename: string }[]>`
      select distinct application_name, usename from pg_stat_activity
      where datname = ${database.name} and application_name like 'hotel-api %' order by 1`;
    expect(new Set(logins.map(({ usename }) => usename))).toEqual(
      new Set([new URL(inject('servers').ownerUrl).username]),
    );
    const seen = (await service.get('/hotels')).json();
    expect(seen.map(({ id }: { id: string }) => id)).toEqual(['hotel_api_serve on on']);
    expect((await service.get('/hotels/hotel_api_serve%20on%20on')).status).toBe(200);
    expect((await service.get('/hotels/hotel_api_serve%20off%20off')).status).toBe(404);
  });
});
