import { randomBytes } from 'node:crypto';
import { beforeAll, expect, it } from 'vitest';
import { migrate, requireSchema } from '../../src/postgres/migrate.ts';
import { Program } from '../cli/program.ts';
import { freshDatabase } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import { addressOf, postgresClient } from '../support/postgres-client.ts';
import { type Service, startService } from '../support/service.ts';

await needs('redis');

/** Plausible settings of a database for other programs. */
const FOREIGN = {
  DateStyle: 'German',
  IntervalStyle: 'sql_standard',
  TimeZone: 'Pacific/Kiritimati',
  bytea_output: 'escape',
  extra_float_digits: '0',
  standard_conforming_strings: 'off',
  default_transaction_isolation: 'serializable',
  default_transaction_read_only: 'on',
  array_nulls: 'off',
  jit: 'on',
  jit_above_cost: '0',
};
const LATITUDE = 48.12345678901235;

let service: Service;

beforeAll(async () => {
  const database = await freshDatabase();
  for (const [name, value] of Object.entries(FOREIGN))
    await database.sql.unsafe(`alter database ${database.name} set ${name} = '${value}'`);
  service = await startService({
    database,
    // the common way to find the primary among several hosts
    env: { DATABASE_URL: `${database.url}?target_session_attrs=read-write` },
    hotels: [{ id: 'h', channel_id: 'c', latitude: LATITUDE, longitude: 1 }],
  });
});

it('a database with settings for other programs has no effect on responses, changes and the expiry of keys', async () => {
  expect((await service.get('/hotels/h')).json().latitude).toBe(LATITUDE);
  expect((await service.get('/hotels/unknown')).status).toBe(404);
  expect((await service.get('/changes')).status).toBe(200);
  expect((await service.get('/hotels?limit=1')).json()).toHaveLength(1);
  await service.sql`create publication everything for all tables`;
  for (const name of ['one', 'two']) {
    await service.sql`update hotels set name = ${name}`;
    await expect.poll(async () => (await service.get('/hotels/h')).json().name).toBe(name);
  }
  expect(service.logs().join('\n')).not.toMatch(/replica identity|could not serialize|read-only transaction/);
  await service.sql`drop publication everything`;
  const program = await Program.set(service.database);
  const { id, expires_at } = await program.json('keys create --name k --expires 2030-05-06'.split(' '));
  expect(expires_at).toBe('2030-05-06T00:00:00.000Z');
  const rotated = await program.json(['keys', 'rotate', id, '--grace', '1h']);
  expect(rotated.expires_at).toBe(expires_at);
});

it('a query whose prepared statement a change of a column has made invalid is repeated', async () => {
  const ids = Array.from({ length: 60 }, (_, i) => `a${i}`);
  const load = async (some: string[]) =>
    Promise.all(some.map(async (id) => (await service.get(`/hotels/channel/${id}`)).status));
  expect(new Set(await load(ids.slice(0, 30)))).toEqual(new Set([404]));
  await service.sql`alter table hotels alter channel_id type varchar(80)`;
  expect(new Set(await load(ids.slice(30)))).toEqual(new Set([404]));
});

it('a database with another encoding is rejected', async () => {
  const name = `latin_${randomBytes(4).toString('hex')}`;
  const admin = service.sql;
  await admin`
    create database ${admin(name)} template template0 encoding 'LATIN1' locale_provider libc lc_collate 'C' lc_ctype 'C'`;
  const sql = postgresClient(addressOf(service.database.ownerUrl, { database: name }));
  await expect(migrate(sql)).rejects.toThrow(
    `The database ${name} has the encoding LATIN1; hotel-api needs UTF8.`,
  );
  await sql.end();
  await admin`drop database ${admin(name)}`;
});

it('a database with the tables in a schema that the service does not search is rejected', async () => {
  const { url, sql } = await freshDatabase();
  await sql`alter schema public rename to "of another"`;
  const login = postgresClient(url, { connection: { role: 'hotel_api_serve' } });
  await expect(requireSchema(login)).rejects.toThrow(
    /^The tables are in the schema "of another", .* Run: alter role \S+ set search_path = "of another"$/,
  );
});
