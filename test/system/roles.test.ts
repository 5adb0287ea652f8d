import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { migrate } from '../../src/postgres/migrate.ts';
import type { FreshDatabase } from '../support/database.ts';
import { databaseAt, ownPostgres } from '../support/own-server.ts';
import { addressOf, postgresClient } from '../support/postgres-client.ts';
import { startService } from '../support/service.ts';

const PASSWORD = randomBytes(12).toString('hex');

const { ownerUrl } = await ownPostgres(60);
const admin = postgresClient(ownerUrl);
// this server has no role of the service yet: the login below creates it
await admin`drop owned by hotel_api_serve`;
await admin`drop role service, hotel_api_serve`;
for (const [login, may] of [
  ['owner', 'createrole'],
  ['stranger', 'nocreaterole'],
])
  await admin.unsafe(`create role ${login} login password '${PASSWORD}' ${may}`);
await admin`create database of_owner owner owner`;

/** Returns a database of this server, with the address for the service. */
function databaseOf(login: string): FreshDatabase {
  const name = 'of_owner';
  const url = addressOf(ownerUrl, { database: name, username: login, password: PASSWORD });
  return databaseAt(url, addressOf(ownerUrl, { database: name }));
}

it('one login without superuser rights creates the role, migrates and serves, without an advisory lock', async () => {
  const database = databaseOf('owner');
  const inside = postgresClient(database.ownerUrl);
  // any login may hold them
  const locks = await inside<{ name: string }[]>`
    select oid::regprocedure::text as name from pg_proc where proname like 'pg\\_%advisory\\_%lock%'`;
  expect(locks.length).toBeGreaterThan(15);
  for (const { name } of locks) await inside.unsafe(`revoke execute on function ${name} from public`);
  await migrate(postgresClient(database.url));
  const service = await startService({ database, redis: false, hotels: [{ id: 'h1' }] });
  expect((await service.get('/hotels/h1')).status).toBe(200);
  await service.stop();
});

it('a login that may not assume the role receives the command to run, and serves afterwards', async () => {
  const database = databaseOf('stranger');
  const service = await startService({ database, redis: false, awaitReady: false });
  await expect.poll(() => service.logs().join('\n')).toContain('grant hotel_api_serve to LOGIN');
  await admin`grant hotel_api_serve to stranger`;
  await service.ready();
  expect((await service.get('/hotels/h1')).status).toBe(200);
  await service.stop();
});
