import { randomBytes } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { closeAtEnd, temporaryFolder } from '../support/cleanup.ts';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import { addressOf } from '../support/postgres-client.ts';
import { insertHotels } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';
import { DEADLINES, REQUESTS, ROWS } from './requests.ts';

await needs('redis');

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

it('the password of the service at PostgreSQL is rotated by files without a restart: the old login is free within a minute, and no request fails', async () => {
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
  const nameOn = async (instance: Service) => (await instance.get(`/hotels/${ROWS.at(-1)!.id}`)).json().name;
  for (const instance of instances) await expect.poll(() => nameOn(instance)).toBe('by the other login');
  await expect.poll(() => sessionsOf(next)).toContain('hotel-api follow');
  for (const load of loads) {
    await load.answers(100);
    expect(await load.stop()).toMatchObject(ALL_ANSWERED);
  }
  for (const instance of instances) expect(instance.logs().join('\n')).not.toContain(':second@');
});
