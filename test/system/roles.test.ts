import { randomBytes } from 'node:crypto';
import postgres, { type Sql } from 'postgres';
import { beforeAll, expect, it } from 'vitest';
import { migrate } from '../../src/postgres/migrate.ts';
import type { FreshDatabase } from '../support/database.ts';
import { closeAtEnd } from '../support/left-behind.ts';
import { ownPostgres } from '../support/own-server.ts';
import { startService } from '../support/service.ts';

const PASSWORD = randomBytes(12).toString('hex');

let admin: Sql;
let ownerUrl: string;

const connect = (url: string) => {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  closeAtEnd('a client of PostgreSQL', () => sql.end());
  return sql;
};

beforeAll(async () => {
  ({ ownerUrl } = await ownPostgres(60));
  admin = connect(ownerUrl);
  // this server has no role of ours yet: the login below makes it
  await admin`drop owned by hotel_api_serve`;
  await admin`drop role service, hotel_api_serve`;
  for (const [login, may] of [
    ['owner', 'createrole'],
    ['stranger', 'nocreaterole'],
  ])
    await admin.unsafe(`create role ${login} login password '${PASSWORD}' ${may}`);
  await admin`create database of_owner owner owner`;
});

/** A database of this server, as the service is told of it. */
function databaseOf(name: string, login: string): FreshDatabase {
  const url = Object.assign(new URL(ownerUrl), { pathname: `/${name}`, username: login, password: PASSWORD });
  const superuser = Object.assign(new URL(ownerUrl), { pathname: `/${name}` }).href;
  return { name, url: url.href, ownerUrl: superuser, sql: connect(superuser), drop: async () => {} };
}

it('one login, which is no superuser, creates the role, migrates and serves', async () => {
  const database = databaseOf('of_owner', 'owner');
  await migrate(connect(database.url));
  const service = await startService({ database, redis: false, hotels: [{ id: 'h1' }] });
  expect((await service.get('/hotels/h1')).status).toBe(200);
  await service.stop();
});

it('a login that may not assume the role gets the command to run, and serves afterwards', async () => {
  const database = databaseOf('of_owner', 'stranger');
  const service = await startService({ database, redis: false, awaitReady: false });
  await expect
    .poll(() => service.logs().join('\n'), { timeout: 30_000 })
    .toContain('grant hotel_api_serve to LOGIN');
  await admin`grant hotel_api_serve to stranger`;
  await service.ready();
  expect((await service.get('/hotels/h1')).status).toBe(200);
  await service.stop();
});
