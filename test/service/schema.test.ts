import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sql } from 'postgres';
import { beforeAll, expect, it } from 'vitest';
import { migrate, requireSchema } from '../../src/postgres/migrate.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';
import { postgresClient } from '../support/postgres-client.ts';

let database: FreshDatabase;
let service: Sql;

beforeAll(async () => {
  database = await freshDatabase();
  service = postgresClient(database.url, { connection: { role: 'hotel_api_serve' } });
});

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

it('the service moves changes from the queue into the log by one function only', async () => {
  for (const statement of [
    'delete from hotel_api_queue',
    'delete from hotel_api_log',
    'truncate hotel_api_log',
    "insert into hotel_api_log (position, kind) values (1000, 'all_hotels')",
    'do $$ begin lock table hotel_api_sequencer in exclusive mode; end $$',
    'select secret from hotel_api_secrets',
    'do $$ begin lock table hotel_api_importer in exclusive mode; end $$',
    'select hotel_api_invalidate()',
    'select hotel_api_new_history()',
  ])
    await expect(service.unsafe(statement), statement).rejects.toMatchObject({ code: '42501' });
  const [row] = await service`select hotel_api_sequence()::integer as position`;
  expect(row!.position).toBeGreaterThan(0);
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
