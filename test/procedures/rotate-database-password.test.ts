import { randomBytes } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { closeAtEnd, temporaryFolder } from '../support/cleanup.ts';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import { startNginx } from '../support/nginx.ts';
import { addressOf } from '../support/postgres-client.ts';
import { insertHotels } from '../support/rows.ts';
import { startService } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';
import { Operator } from './operator.ts';
import { DEADLINES, REQUESTS, ROWS } from './requests.ts';

await needs('bash', 'psql', 'nginx', 'redis');

/** Creates two logins for this test; roles belong to the whole server. */
async function twoLogins() {
  const database = await freshDatabase();
  const suffix = randomBytes(4).toString('hex');
  const logins = [`service_a_${suffix}`, `service_b_${suffix}`] as const;
  const urlOf = (login: string, password: string) =>
    addressOf(database.ownerUrl, { username: login, password });
  closeAtEnd('logins', async () => {
    for (const login of logins) await database.sql`drop role if exists ${database.sql(login)}`;
  });
  for (const login of logins)
    await database.sql`create role ${database.sql(login)} login in role hotel_api_serve`;
  await database.sql.unsafe(`alter role ${logins[0]} password 'first'`);
  await insertHotels(database.sql, ROWS);
  return { database, logins, urlOf };
}

describe('the password of the service at PostgreSQL', () => {
  it('is rotated with two alternating logins without a failed request', async () => {
    const { database, logins, urlOf } = await twoLogins();
    const redisDatabase = await freshRedis();
    const [current, next] = logins;
    const start = (url: string, ports?: { port: number; adminPort: number }) =>
      startService({
        database,
        redisDatabase,
        env: { ...DEADLINES, DATABASE_URL: url, DRAIN_WAIT_MS: '500' },
        ...(ports && { ports }),
      });
    const oldUrl = urlOf(current, 'first');
    const instances = [await start(oldUrl), await start(oldUrl)];
    const port = await startNginx(instances.map((instance) => instance.port));
    const load = new SteadyLoad({ port, fullKey: instances[0]!.fullKey }, REQUESTS);
    await load.answers(100);

    const operator = await Operator.set({ OWNER_URL: database.ownerUrl });
    const password = randomBytes(16).toString('hex');
    await operator.types(
      `psql "$OWNER_URL" -qv ON_ERROR_STOP=1 -v login="$NEXT" <<'SQL'
\\getenv password NEW_PASSWORD
alter role :"login" login password :'password';
SQL`,
      { NEXT: next, NEW_PASSWORD: password },
    );
    // the Secret gets the other login and its password; then the roll-out
    for (const [i, instance] of instances.entries()) {
      expect(await instance.stop()).toMatchObject({ code: 0 });
      const fresh = await start(urlOf(next, password), instance);
      instances[i] = fresh;
      // nginx retries an instance some time after a failure
      const answered = () =>
        fresh.metric('hotel_api_request_duration_seconds_count', { http_route: '/hotels/{id}' });
      await expect.poll(answered).toBeGreaterThan(0);
    }
    await operator.types(
      `psql "$OWNER_URL" -qv ON_ERROR_STOP=1 -v login="$CURRENT" <<'SQL'
select usename, count(*) from pg_stat_activity where usename = :'login' group by 1;  -- no row: nobody uses it
alter role :"login" nologin;
SQL`,
      { CURRENT: current },
    );
    // a backend exits a moment after its client
    await expect
      .poll(() => database.sql`select from pg_stat_activity where usename = ${current}`)
      .toHaveLength(0);
    expect(await load.stop()).toMatchObject(ALL_ANSWERED);
  });

  it('is rotated by files without a restart: the old login is free within a minute, and no request fails', async () => {
    const { database, logins, urlOf } = await twoLogins();
    const redisDatabase = await freshRedis();
    const [current, next] = logins;
    const folder = await temporaryFolder('hotel-api-secret-');
    const files = { DATABASE_URL: join(folder, 'url'), DATABASE_REPLICA_URLS: join(folder, 'replicas') };
    /** As a mounted Secret changes. The primary server is its own replica. */
    const mount = async (url: string) => {
      for (const file of Object.values(files)) {
        await writeFile(`${file}.new`, url);
        await rename(`${file}.new`, file);
      }
    };
    await mount(urlOf(current, 'first'));
    const env = {
      ...DEADLINES,
      DATABASE_URL: '',
      DATABASE_URL_FILE: files.DATABASE_URL,
      DATABASE_REPLICA_URLS_FILE: files.DATABASE_REPLICA_URLS,
    };
    const start = () => startService({ database, redisDatabase, workers: 2, env });
    const instances = [await start(), await start()];
    /** purposes of the sessions of a login */
    const sessionsOf = async (login: string) => {
      const rows = await database.sql<{ name: string }[]>`
        select distinct application_name as name from pg_stat_activity where usename = ${login} order by 1`;
      return rows.map(({ name }) => name);
    };
    const all = ['hotel-api follow', 'hotel-api serve'];
    await expect.poll(() => sessionsOf(current)).toEqual(all);
    const loads = instances.map((instance) => new SteadyLoad(instance, REQUESTS));
    for (const load of loads) await load.answers(100);

    await database.sql.unsafe(`alter role ${next} password 'second'`);
    await mount(urlOf(next, 'second'));
    // nothing ends these sessions but the instances themselves
    await expect.poll(() => sessionsOf(current), { timeout: 60_000 }).toEqual([]);
    await database.sql.unsafe(`alter role ${current} nologin`);
    // the new login follows the log; it opens a session to serve when a read needs PostgreSQL
    await database.sql`update hotels set name = 'by the other login' where id = ${ROWS.at(-1)!.id!}`;
    for (const instance of instances)
      await expect
        .poll(async () => (await instance.get(`/hotels/${ROWS.at(-1)!.id}`)).json().name)
        .toBe('by the other login');
    await expect.poll(() => sessionsOf(next)).toContain('hotel-api follow');
    for (const load of loads) {
      await load.answers(100);
      expect(await load.stop()).toMatchObject(ALL_ANSWERED);
    }
  });
});
