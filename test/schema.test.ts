import postgres, { type Sql } from 'postgres';
import { beforeAll, expect, it } from 'vitest';
import { migrate, requireSchema } from '../src/schema.ts';
import { type FreshDatabase, freshDatabase } from './support/database.ts';
import { closeAtEnd } from './support/left-behind.ts';

let database: FreshDatabase;
let service: Sql;

beforeAll(async () => {
  database = await freshDatabase();
  service = postgres(database.url, { max: 1, connection: { role: 'hotel_api_serve' } });
  closeAtEnd('login of the service', () => service.end());
});

it('a database that lacks a migration from between is not served on, and gets it by the next migrate', async () => {
  const { sql } = database;
  await requireSchema(service);
  await sql`
    alter table api_keys drop column rate_limit_requests cascade, drop column rate_limit_window_s cascade`;
  await sql`delete from schema_migrations where name = '005-rate-limits.sql'`;
  await expect(requireSchema(service)).rejects.toThrow(/lacks sql\/005-rate-limits\.sql.*hotel-api migrate/);
  expect((await migrate(sql)).applied).toEqual(['005-rate-limits.sql']);
  await requireSchema(service);
});

it('the service takes changes off the queue by one function alone', async () => {
  await expect(service`select hotel_api_drain_changes(0, 0)`).rejects.toMatchObject({ code: '42501' });
  expect(await service`select * from hotel_api_drain(0, 0, 0)`).toEqual([]);
});
