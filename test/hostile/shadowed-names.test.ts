import postgres, { type Sql } from 'postgres';
import { beforeAll, describe, expect, it } from 'vitest';
import { closeAtEnd } from '../support/cleanup.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';
import { addressOf } from '../support/postgres-client.ts';
import { insertHotels } from '../support/rows.ts';

interface Function {
  name: string;
  arguments: string[];
  returns: string;
  definer: boolean;
  settings: string[] | null;
  body: string;
  forPublic: boolean;
}

/** Value of each argument type. */
const VALUES: Record<string, string> = {
  text: "'x'",
  integer: '100',
  bigint: '100',
  json: "'[]'",
  jsonb: "'[]'",
  date: "'2020-01-01'",
  'text[]': "'{a}'",
  boolean: 'false',
  'double precision': '1',
  numeric: '1',
  pg_snapshot: 'pg_current_snapshot()',
  hotel_api_state: 'null',
};

let database: FreshDatabase;
let functions: Function[];
/** a login of the serving role, and one that may write hotels and keys; both may create temporary tables */
let server: Sql;
let writer: Sql;

beforeAll(async () => {
  database = await freshDatabase();
  const { sql, url, ownerUrl } = database;
  functions = await sql<Function[]>`
    select proname as name, prorettype::regtype::text as returns, prosecdef as definer, proconfig as settings, prosrc as body,
      array(select t::regtype::text from unnest(proargtypes) as t) as arguments,
      has_function_privilege('public', oid, 'execute') as "forPublic"
    from pg_proc where pronamespace = current_schema()::regnamespace`;
  await insertHotels(sql, [{ id: 'a' }, { id: 'b' }]);
  await sql`select hotel_api_sequence()`;
  const login = `writer_${database.name}`;
  const { password } = new URL(ownerUrl);
  await sql.unsafe(`create role ${login} login password '${password}'`);
  await sql.unsafe(`grant select, insert, update, delete, truncate on hotels, api_keys to ${login}`);
  server = postgres(url, { max: 1, onnotice: () => {} });
  writer = postgres(addressOf(ownerUrl, { username: login }), {
    max: 1,
    onnotice: () => {},
  });
  closeAtEnd('hostile logins', async () => {
    await Promise.all([server.end(), writer.end()]);
    await sql.unsafe(`drop owned by ${login}; drop role ${login}`);
  });
});

/**
 * Creates a temporary table for each relation of the schema, with triggers and a default that would use the owner's
 * rights. Creates functions with the names that the schema's functions use, too.
 */
async function shadowAll(sql: Sql): Promise<void> {
  const relations = await database.sql<{ name: string; kind: string; columns: string | null }[]>`
    select relname as name, relkind as kind, (
      select string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' order by attnum) from pg_attribute
      where attrelid = pg_class.oid and attnum > 0 and not attisdropped
    ) as columns
    from pg_class
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'S')`;
  expect(relations.map(({ name }) => name)).toContain('hotel_api_queue');
  await sql.unsafe(`
    create function pg_temp.steal() returns trigger language plpgsql as $$
    begin
      insert into public.api_keys (id, name, key_sha256) values ('stolen', 's', sha256('stolen'));
      return null;
    end $$`);
  for (const { name, kind, columns } of relations) {
    if (kind === 'S') await sql.unsafe(`create temporary sequence ${name} start 7000000`);
    else {
      await sql.unsafe(`
        create temporary table ${name} (${columns ?? ''});
        create trigger steal before insert or update or delete on pg_temp.${name}
          for each statement execute function pg_temp.steal()`);
    }
  }
  await sql.unsafe(`
    create function pg_temp.nextval(regclass) returns bigint language sql return 7000000;
    create function pg_temp.clock_timestamp() returns timestamptz language sql return now() - interval '1 year';
    create function pg_temp.encode(bytea, text) returns text language sql return 'captured'`);
}

/** Checks that no key was created, no hotel changed without rights, and that no temporary table captured a change. */
async function expectNothingCaptured(sql: Sql): Promise<void> {
  expect(await database.sql`select from api_keys where id = 'stolen'`).toHaveLength(0);
  const temporary = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = pg_my_temp_schema() and relkind = 'r'`;
  expect(temporary.length).toBeGreaterThan(3);
  for (const { name } of temporary) expect(await sql`select from ${sql(`pg_temp.${name}`)}`).toHaveLength(0);
}

describe('temporary tables and functions do not replace those of the schema:', () => {
  it('in no function of the schema that the serving role may call', async () => {
    await shadowAll(server);
    await writer`update public.hotels set name = 'changed' where id = 'a'`;
    const called: string[] = [];
    for (const { name, returns, arguments: types } of functions.filter(
      ({ returns }) => returns !== 'trigger',
    )) {
      for (const type of types) expect(Object.keys(VALUES)).toContain(type);
      const values = types.map((type) => VALUES[type]).join(', ');
      const rows = await server.unsafe(`select public.${name}(${values})`).catch((error) => {
        // missing rights, or an exception of the function
        expect(['42501', 'P0001'], `${name}: ${error}`).toContain(error.code);
      });
      if (rows) called.push(`${name} ${returns}`);
    }
    expect(called.map((name) => name.split(' ')[0])).toEqual(
      expect.arrayContaining([
        ...['hotel_api_sequence', 'hotel_api_poll', 'hotel_api_history', 'hotel_api_begin_history'],
        ...['hotel_api_ranges', 'hotel_uri_is_valid'],
      ]),
    );
    const changed = await database.sql`
      select ids from hotel_api_log where kind = 'hotels' and not moves and at > now() - interval '1 day'`;
    expect(changed).toEqual([{ ids: ['a'] }]);
    await expectNothingCaptured(server);
  });

  it('in no trigger', async () => {
    await shadowAll(writer);
    await writer`insert into public.hotels (id, name) values ('c', 'C')`;
    await writer`update public.hotels set id = 'd' where id = 'c'`;
    await writer`delete from public.hotels where id = 'd'`;
    await writer`truncate public.hotels`;
    await writer`insert into public.api_keys (id, name, key_sha256) values ('k', 'K', sha256('k'))`;
    await writer`update public.api_keys set name = 'L' where id = 'k'`;
    await writer`delete from public.api_keys where id = 'k'`;
    await writer`truncate public.api_keys`;
    const noted = await database.sql`
      select kind, count(*)::int from hotel_api_queue where ids <> '{captured}'
        and number not between 7000000 and 7000100
      group by kind order by kind`;
    expect(Object.fromEntries(noted.map(({ kind, count }) => [kind, count]))).toEqual({
      hotels: 5,
      all_hotels: 1,
      keys: 4,
      all_keys: 1,
    });
    await expectNothingCaptured(writer);
  });

  it('in no function that has its owner’s rights: each names the schema, and pg_temp last', () => {
    const ofOwner = functions.filter(({ definer }) => definer);
    expect(ofOwner.length).toBeGreaterThan(5);
    for (const { name, settings, body, forPublic } of ofOwner) {
      expect(forPublic, `${name} may be called by PUBLIC`).toBe(false);
      if (settings === null) expect(body.match(/(?<!\.)\b(?:nextval|regclass)\b/), name).toBeNull();
      else expect(settings, name).toContain('search_path=public, pg_temp');
    }
  });

  it('in no trigger function with the rights of the writer: there is none', () => {
    expect(functions.filter(({ returns, definer }) => returns === 'trigger' && !definer)).toEqual([]);
  });
});
