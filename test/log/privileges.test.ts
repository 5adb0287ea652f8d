import type { Sql } from 'postgres';
import { expect, it } from 'vitest';
import { freshDatabase } from '../support/database.ts';
import { newLogin, postgresClient, untilBlocked } from '../support/postgres-client.ts';
import { freshLog, insertHotels, logAfter, poll, sequence, stateOf } from './sequenced.ts';

/** Fails unless this login may execute none of the statements. */
async function expectDenied(login: Sql, statements: string[]): Promise<void> {
  for (const statement of statements) {
    const denied = login.unsafe(`begin; ${statement}; rollback`).simple();
    await expect(denied, statement).rejects.toThrow(/permission denied|must be owner/);
    await login`rollback`;
  }
}

it('a login that may connect and nothing else reads, locks and calls nothing', async () => {
  const database = await freshDatabase();
  const { sql } = database;
  const { login, url } = await newLogin(database);
  const own = postgresClient(url);
  const tables = await sql<{ name: string; kind: string }[]>`
    select relname as name, relkind as kind from pg_class
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'v', 'm', 'S', 'p', 'f')`;
  expect(tables.length).toBeGreaterThan(7);
  for (const { name, kind } of tables) {
    const modes = kind === 'r' ? ['access share', 'row exclusive', 'exclusive', 'access exclusive'] : [];
    const locks = modes.map((mode) => `lock table ${name} in ${mode} mode nowait`);
    await expectDenied(own, [`select * from ${name}`, ...locks]);
  }
  const functions = await sql<{ name: string; source: string; callable: boolean }[]>`
    select proname as name, prosrc as source, has_function_privilege(${login}, oid, 'execute') as callable
    from pg_proc where pronamespace = current_schema()::regnamespace and proname like 'hotel\\_api\\_%'`;
  expect(functions.length).toBeGreaterThan(15);
  expect(functions.filter(({ callable }) => callable)).toEqual([]);
  // any login may hold an advisory lock, listen, and fill the queue of notifications
  expect(functions.filter(({ source }) => /advisory|\bnotify\b/i.test(source))).toEqual([]);
  await expectDenied(own, ['select hotel_api_sequence()']);
});

it('the serving login reads and sequences, but writes nothing, and neither sees nor replaces the secret', async () => {
  const { url } = await freshLog();
  const service = postgresClient(url);
  expect(await service`select from hotels`).toEqual([]);
  expect(await service`select from api_keys`).toEqual([]);
  expect((await service`select hotel_api_sequence()`).length).toBe(1);
  await expectDenied(service, [
    `insert into hotel_api_log (position, kind) values (1000000, 'all_hotels')`,
    `insert into hotel_api_queue (kind, size) values ('all_hotels', 0)`,
    'delete from hotel_api_queue',
    'truncate hotel_api_log',
    'lock table hotel_api_sequencer in exclusive mode',
    'lock table hotel_api_log in exclusive mode',
    'select * from hotel_api_secrets',
    'select hotel_api_new_history()',
    'select hotel_api_draw_secret()',
    `select hotel_api_append(1, 'all_hotels')`,
    'select hotel_api_append_state(1, null)',
    'select hotel_api_invalidate()',
    'select hotel_api_lock_sequencer()',
    `select nextval('hotel_api_queue_number_seq')`,
    'do $$ begin lock table hotel_api_importer in exclusive mode; end $$',
    `insert into hotels (id, name) values ('b', 'B')`,
    `update hotels set name = 'B'`,
    'truncate hotels',
    `insert into api_keys (id, name, key_sha256, scopes) values ('k', 'k', sha256('k'), '{}')`,
    `update api_keys set scopes = '{registry}'`,
    'delete from api_keys',
    `insert into schema_migrations (version, name, sha256) values (99, '', '')`,
    'drop table hotels',
    'alter table hotels disable trigger all',
    'create table mine (a int)',
  ]);
});

it('extreme arguments of the serving login end at worst in another history', async () => {
  const { sql, url, from } = await freshLog();
  const service = postgresClient(url);
  const { history, transaction } = await stateOf(sql);
  const extremes = ['null', '-9223372036854775808', '-1', '0', '9223372036854775807'];
  for (const position of extremes)
    for (const other of extremes) {
      const text = `select count(*) from hotel_api_poll(${position}, ${other}, ${position === 'null' ? 'null' : '2147483647'})`;
      expect(await service.unsafe(text)).toHaveLength(1);
    }
  await expect(service`select * from hotel_api_poll(${from - 1}, 0, -1)`).rejects.toThrow(
    'LIMIT must not be negative',
  );
  // another history, or what is forgotten or never was, changes nothing
  for (const known of ['null', `''`, `'another'`, `repeat('x', 1000000)`])
    await service.unsafe(`select hotel_api_begin_history(${known}, 9223372036854775807, 0)`);
  for (const after of ['null', '-9223372036854775808', '-1', '0'])
    await service.unsafe(`select hotel_api_begin_history('${history}', ${after}, ${transaction})`);
  await service.unsafe(`select hotel_api_begin_history('${history}', ${from}, ${transaction})`);
  expect(await stateOf(sql)).toMatchObject({ history, position: from });
  await service.unsafe(`select hotel_api_begin_history('${history}', 9223372036854775807, -1)`);
  const begun = await stateOf(sql);
  expect(begun.history).not.toBe(history);
  expect(begun.position).toBe(from + 4);
  // a sequencer within a savepoint leaves a row that looks restored: the next one begins another history, once
  await service.unsafe('begin; savepoint a; select hotel_api_sequence(); release a; commit').simple();
  await insertHotels(sql, ['h']);
  await service.unsafe('begin; savepoint a; select hotel_api_sequence(); release a; commit').simple();
  await sequence(sql);
  await insertHotels(sql, ['h2']);
  const { position, history: last } = await stateOf(sql);
  await sequence(sql);
  expect(await logAfter(sql, position)).toMatchObject([{ kind: 'hotels', id: 'h2' }]);
  expect((await stateOf(sql)).history).toBe(last);
  expect(await poll(service)).toMatchObject({ isDue: false });
});

it('the serving login can hold up the log at worst while its transaction lasts, and nothing is lost', async () => {
  const { sql, url, from } = await freshLog();
  const service = postgresClient(url);
  const { history } = await stateOf(sql);
  await insertHotels(sql, ['h']);
  const [{ pid }] = await service<[{ pid: number }]>`select pg_backend_pid() as pid`;
  await service.unsafe('begin; select hotel_api_sequence()').simple();
  const waiting = sequence(sql);
  await untilBlocked(sql);
  expect(await stateOf(sql)).toMatchObject({ history, position: from });
  await sql`select pg_terminate_backend(${pid})`;
  await waiting;
  expect(await logAfter(sql, from)).toMatchObject([{ kind: 'hotels', id: 'h' }]);
  expect((await stateOf(sql)).history).toBe(history);
});

it('a login that may write hotels changes and locks hotels, and nothing else', async () => {
  const database = await freshLog();
  const { sql, from } = database;
  const { login, url } = await newLogin(database);
  const writer = postgresClient(url);
  await sql.unsafe(`grant select, insert, update, delete on hotels to ${login}`);
  await writer`insert into hotels (id, name) values ('h', 'H')`;
  await sequence(sql);
  expect(await logAfter(sql, from)).toMatchObject([{ kind: 'hotels', id: 'h' }]);
  await expectDenied(writer, [
    'truncate hotels',
    'alter table hotels disable trigger all',
    'set session_replication_role = replica',
    'select from api_keys',
    'select from hotel_api_queue',
    'select from hotel_api_log',
    'select from hotel_api_secrets',
    `insert into hotel_api_queue (kind, size) values ('all_keys', 0)`,
    `insert into collection_hotels values ('c', 'h')`,
    'lock table hotel_api_sequencer in exclusive mode',
    'lock table hotel_api_importer in exclusive mode',
    'lock table hotel_api_queue in access share mode',
    'select hotel_api_sequence()',
    'select hotel_api_invalidate()',
    `select hotel_api_begin_history('', 0, 0)`,
    'select * from hotel_api_poll(0, 0, 1)',
  ]);
  // its own lock of the table holds up reads of hotels, and the log not at all
  await sql`insert into api_keys (id, name, key_sha256, scopes) values ('k', 'k', sha256('k'), '{}')`;
  await writer.unsafe('begin; lock table hotels in access exclusive mode').simple();
  const locked = await sequence(sql);
  expect(await logAfter(sql, locked - 2)).toMatchObject([{ kind: 'keys' }]);
});

it('a session with settings of its own sequences durably, and in the order of commits', async () => {
  const { sql, ownerUrl } = await freshDatabase();
  const one = postgresClient(ownerUrl);
  for (const setting of [
    'synchronous_commit = off',
    `default_transaction_isolation = 'serializable'`,
    'enable_indexscan = off',
    'enable_indexonlyscan = off',
    `TimeZone = 'Pacific/Kiritimati'`,
    `DateStyle = 'SQL, DMY'`,
    `search_path = 'pg_catalog'`,
  ])
    await one.unsafe(`set ${setting}`);
  const from = await sequence(sql);
  await insertHotels(sql, ['h1']);
  await insertHotels(sql, ['h2']);
  const results = await one
    .unsafe(
      'begin isolation level read committed; select public.hotel_api_sequence(); show synchronous_commit; commit',
    )
    .simple();
  expect((results as unknown as object[][])[2]).toEqual([{ synchronous_commit: 'on' }]);
  expect(await logAfter(sql, from)).toMatchObject([{ id: 'h1' }, { id: 'h2' }]);
  const [{ day }] = await sql<[{ day: string }]>`select (now() at time zone 'UTC')::date::text as day`;
  expect((await stateOf(sql)).day).toBe(day);
});

it('the serving login counts the use of existing keys, and can neither take back nor read what was counted', async () => {
  const { sql, url } = await freshDatabase();
  const service = postgresClient(url);
  await sql`insert into api_keys (id, name, key_sha256) values ('k', 'Key', sha256('k'))`;
  const [row] = await sql`select (now() at time zone 'UTC')::date::text as today`;
  const today = row!.today;
  const count = (usage: object) =>
    service.unsafe('select hotel_api_count_usage($1::text::json)', [
      JSON.stringify([{ day: today, key_id: 'k', requests: 2, hotels: 3, bytes: 4, ...usage }]),
    ]);
  const counted = () =>
    sql`select key_id, requests::float8, hotels::float8, bytes::float8 from hotel_api_usage`;
  await sql`insert into hotel_api_usage values ('2000-01-01', 'k', 1, 1, 1, '2000-01-01')`;
  await count({});
  await count({});
  for (const refused of [
    { key_id: 'unknown' },
    { day: '2030-01-01' },
    { day: '2020-01-01' },
    { requests: 0 },
    { requests: -1 },
    { hotels: -1 },
    { bytes: -1 },
  ])
    await count(refused);
  expect(await counted()).toEqual([{ key_id: 'k', requests: 4, hotels: 6, bytes: 8 }]);
  // no number overflows, now or later
  for (let i = 0; i < 4; i++) await count({ requests: 1e30, hotels: 1e30, bytes: 1e30 });
  await count({});
  expect(await counted()).toEqual([{ key_id: 'k', requests: 4e18, hotels: 4e18, bytes: 4e18 }]);
  await expectDenied(service, [
    'select * from hotel_api_usage',
    'delete from hotel_api_usage',
    'update hotel_api_usage set requests = 0',
    'truncate hotel_api_usage',
    `insert into hotel_api_usage values ('${today}', 'k2', 1, 1, 1, now())`,
  ]);
});

it('the use of keys is kept for 90 days', async () => {
  const { sql } = await freshDatabase();
  const today = sql`(now() at time zone 'UTC')::date`;
  // within a transaction it is the same day
  const ages = await sql.begin(async (transaction) => {
    await transaction`
      insert into hotel_api_usage
      select ${today} - age, 'k', 1, 1, 1, now() from unnest(array[0, 89, 90, 91, 92, 9000]) age`;
    await transaction`select hotel_api_count_usage('[]')`;
    return transaction`select ${today} - day as age from hotel_api_usage order by age`;
  });
  expect(ages).toEqual([{ age: 0 }, { age: 89 }, { age: 90 }]);
});

it('temporary tables and functions replace none of the schema in a function with its owner’s rights', async () => {
  const { sql } = await freshDatabase();
  const functions = await sql`
    select proname as name, prorettype::regtype::text as returns, prosecdef as "isOwners", proconfig as path,
      prosqlbody is not null as "isBound",
      has_function_privilege('public', oid, 'execute') as "forAll"
    from pg_proc where pronamespace = current_schema()::regnamespace`;
  const ofOwner = functions.filter(({ isOwners }) => isOwners);
  expect(ofOwner.length).toBeGreaterThan(5);
  for (const { name, path, isBound, forAll } of ofOwner) {
    expect(forAll, `${name} may be called by PUBLIC`).toBe(false);
    // the names in a body of standard SQL are those of its creation
    if (!isBound) expect(path, name).toContain('search_path=public, pg_temp');
  }
  // no trigger has the rights of the writer
  expect(functions.filter(({ returns, isOwners }) => returns === 'trigger' && !isOwners)).toEqual([]);
});
