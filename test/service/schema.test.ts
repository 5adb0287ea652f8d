import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { migrate, requireSchema } from '../../src/postgres/migrate.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { freshDatabase } from '../support/database.ts';
import { postgresClient } from '../support/postgres-client.ts';

const database = await freshDatabase();
const service = postgresClient(database.url, { connection: { role: 'hotel_api_serve' } });

it('a database that lacks an intermediate migration is rejected by the service, and receives it from the next migrate', async () => {
  const { sql } = database;
  const folder = await temporaryFolder('migrations-');
  for (const name of ['101-one', '103-three']) await writeFile(join(folder, `${name}.sql`), 'select 1');
  await sql`delete from schema_migrations`;
  await migrate(sql, folder);
  await requireSchema(service, folder);
  await writeFile(join(folder, '102-two.sql'), 'select 1');
  await expect(requireSchema(service, folder)).rejects.toThrow(/lacks sql\/102-two\.sql.*hotel-api migrate/);
  expect((await migrate(sql, folder)).applied).toEqual(['102-two.sql']);
  await requireSchema(service, folder);
});

it('a migration that fails is rolled back, and repeated by the next migrate', async () => {
  const { sql } = await freshDatabase();
  const folder = await temporaryFolder('migrations-');
  const file = join(folder, '101-one.sql');
  await writeFile(file, 'create table one (id text); select 1 / 0;');
  await sql`delete from schema_migrations`;
  await expect(migrate(sql, folder)).rejects.toThrow(
    'sql/101-one.sql failed and was rolled back (22012): division by zero',
  );
  expect(await sql`select to_regclass('one') as one`).toEqual([{ one: null }]);
  await writeFile(file, 'create table one (id text)');
  expect((await migrate(sql, folder)).applied).toEqual(['101-one.sql']);
});

it('migrate leaves statistics of every table, empty ones too, and so the planner overestimates none', async () => {
  const { sql } = await freshDatabase();
  const unknown = () => sql`
    select relname from pg_class
    where relnamespace = 'public'::regnamespace and relkind = 'r' and reltuples < 0`;
  // as after `create table`
  await sql`
    update pg_class set reltuples = -1, relpages = 0 where relnamespace = 'public'::regnamespace and relkind = 'r'`;
  expect(await unknown()).not.toEqual([]);
  await migrate(sql);
  expect(await unknown()).toEqual([]);
});
