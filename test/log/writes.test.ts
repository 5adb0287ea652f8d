import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Sql } from 'postgres';
import { expect, it } from 'vitest';
import { migrate, requireSchema } from '../../src/postgres/migrate.ts';
import { freshDatabase } from '../support/database.ts';
import { ownPostgres } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { logAfter, poll, type Sequenced, sequence } from './sequenced.ts';

type Rows = Map<string, string>;

/** Returns every row as a text, by the kind of its changes in the log and its key. */
async function allRows(sql: Sql): Promise<Rows> {
  const rows = await sql<{ key: string; row: string }[]>`
    select 'hotels ' || id as key, t::text as row from hotels as t
    union all select 'keys ' || encode(key_sha256, 'hex'), t::text from api_keys as t
    union all select 'members ' || collection_id || '/' || hotel_id, t::text from collection_hotels as t
    union all select 'collections ' || id, t::text from collections as t`;
  return new Map(rows.map(({ key, row }) => [key, row]));
}

/** Asserts that the log names every row that differs, or all of its kind. */
async function expectNamed(sql: Sql, before: Rows, log: readonly Sequenced[]): Promise<void> {
  const after = await allRows(sql);
  const named = log.map(({ kind, id, collection }) =>
    kind === 'members' ? `${kind} ${collection}/${id}` : `${kind} ${id}`,
  );
  for (const key of new Set([...before.keys(), ...after.keys()])) {
    const [kind, id] = key.split(' ');
    const all = kind === 'members' ? 'all_collections' : `all_${kind}`;
    if (before.get(key) === after.get(key) || log.some((row) => row.kind === all)) continue;
    expect(named).toContain(key);
    if (kind !== 'hotels') continue;
    const changes = log.filter((row) => row.id === id && row.kind === 'hotels');
    const [hotel] =
      await sql`select channel_id as channel, registry_id::text as registry from hotels where id = ${id!}`;
    if (hotel) expect(changes).toContainEqual(expect.objectContaining({ ...hotel }));
    if (before.has(key) !== after.has(key)) expect(changes.some(({ moves }) => moves)).toBe(true);
  }
}

const sha = (key: string) => `sha256('${key}')`;

const SEED = `
  insert into hotels (id, name, channel_id, registry_id)
    select 'h' || i, 'Hotel ' || i, 'c' || i, i from generate_series(1, 30) as i;
  insert into api_keys (id, name, key_sha256) select 'k' || i, 'Key', sha256(('key ' || i)::bytea) from generate_series(1, 5) as i;
  insert into collections values ('one', 'One'), ('two', 'Two'), ('three', 'Three');
  insert into collection_hotels select collection, 'h' || i from unnest(array['one', 'two', 'three']) as collection,
    generate_series(1, 10) as i`;

const WRITES: Record<string, string> = {
  'an INSERT': `insert into hotels (id, name, channel_id) values ('n1', 'N', 'cn1'), ('n2', 'N', null)`,
  'an upsert': `insert into hotels (id, name) values ('h1', 'New'), ('n1', 'N') on conflict (id) do update set name = excluded.name`,
  'a MERGE of all actions': `merge into hotels as h
    using (values ('h1', 'Merged'), ('h2', null), ('n1', 'N')) as given (id, name) on h.id = given.id
    when matched and given.name is null then delete
    when matched then update set name = given.name
    when not matched then insert (id, name) values (given.id, given.name)`,
  'renames of ids': `update hotels set id = 'renamed-' || id, name = 'Renamed' where registry_id between 3 and 6`,
  'a rename to the id of a deleted hotel': `begin; delete from hotels where id = 'h2'; update hotels set id = 'h2' where id = 'h3'; commit`,
  'a swap of channel ids': `begin; update hotels set channel_id = 'free' where id = 'h1'; update hotels set channel_id = 'c1' where id = 'h2';
    update hotels set channel_id = 'c2' where id = 'h1'; commit`,
  'a swap of ids': `begin; update hotels set id = 'free' where id = 'h1'; update hotels set id = 'h1' where id = 'h2';
    update hotels set id = 'h2' where id = 'free'; commit`,
  'a deletion and the same id again': `begin; delete from hotels where id = 'h1'; insert into hotels (id, name, channel_id) values ('h1', 'Again', 'c1'); commit`,
  'a channel id that another hotel takes over': `begin; delete from hotels where id = 'h1'; insert into hotels (id, name, channel_id) values ('n1', 'N', 'c1'); commit`,
  'a TRUNCATE': 'truncate hotels',
  'a TRUNCATE and a reload': `begin; truncate hotels; insert into hotels (id, name) values ('h1', 'Reloaded'), ('n1', 'N'); commit`,
  'a TRUNCATE of what refers to it': 'truncate collections cascade',
  'a TRUNCATE of keys': 'truncate api_keys',
  'a CTE that writes several tables': `with gone as (delete from hotels where id in ('h1', 'h2') returning id),
    left_collections as (delete from collection_hotels where hotel_id in ('h1', 'h2') returning hotel_id),
    revoked as (update api_keys set revoked_at = now() where id = 'k1')
    insert into hotels (id, name) select 'copy-' || id, 'Copy' from gone`,
  'a deleted collection': `delete from collections where id = 'two'`,
  'a renamed collection': `update collections set id = 'renamed' where id = 'two'`,
  'a membership that moves': `update collection_hotels set collection_id = 'three', hotel_id = 'h20' where collection_id = 'one' and hotel_id = 'h1'`,
  'a key of another hash': `update api_keys set key_sha256 = ${sha('another')} where id = 'k1'`,
  'a deleted key': `delete from api_keys where id = 'k2'`,
  'a new key': `insert into api_keys (id, name, key_sha256) values ('k9', 'Key', ${sha('nine')})`,
  savepoints: `begin; update hotels set name = 'kept' where id = 'h1'; savepoint a; update hotels set name = 'undone' where id = 'h2';
    rollback to a; update hotels set name = 'kept' where id = 'h3'; commit`,
};

// to triggers `local` is the same as `origin`
for (const role of ['origin', 'replica'])
  it(`the log names every row that a session with session_replication_role = ${role} changes`, async () => {
    const { sql, ownerUrl } = await freshDatabase();
    await sql.unsafe(SEED).simple();
    const one = postgresClient(ownerUrl);
    await one.unsafe(`set session_replication_role = ${role}`);
    for (const [what, statement] of Object.entries(WRITES)) {
      const from = await sequence(sql);
      const before = await allRows(sql);
      await one.unsafe(statement).simple();
      await sequence(sql);
      await expectNamed(sql, before, await logAfter(sql, from)).catch((error: Error) => {
        throw new Error(`${what}: ${error.message}`);
      });
      await sql.unsafe(`truncate hotels, api_keys, collections, collection_hotels; ${SEED}`).simple();
    }
    const from = await sequence(sql);
    const before = await allRows(sql);
    await pipeline(
      Readable.from(['copied-1\tCopied\tcc1\n', 'copied-2\tCopied\t\\N\n']),
      await one`copy hotels (id, name, channel_id) from stdin`.writable(),
    );
    await sequence(sql);
    await expectNamed(sql, before, await logAfter(sql, from));
  });

/** As pg_restore with --disable-triggers ends. */
const ENABLE_ALL = ['hotel_api_queue', 'hotels', 'api_keys', 'collection_hotels', 'collections'].map(
  (table) => `alter table ${table} disable trigger all; alter table ${table} enable trigger all;`,
);

it.each(['migrate', 'select hotel_api_invalidate()'])(
  'triggers that a restore has enabled for the wrong sessions keep the service from starting, until %s',
  async (correct) => {
    const { sql, ownerUrl, url } = await freshDatabase();
    const service = postgresClient(url, { connection: { role: 'hotel_api_serve' } });
    const modes = () =>
      sql`select tgrelid, tgname, tgenabled from pg_trigger where not tgisinternal order by 1, 2`;
    const [before] = [await modes(), await requireSchema(service), await sql.unsafe(SEED).simple()];
    await sql.unsafe(ENABLE_ALL.join('')).simple();
    expect(await modes()).not.toEqual(before);
    await expect(requireSchema(service)).rejects.toThrow(
      /^Triggers of api_keys, .*, hotels are .*Run, as the owner: select hotel_api_invalidate\(\)/,
    );
    await (correct === 'migrate' ? migrate(sql) : sql.unsafe(correct));
    expect(await modes()).toEqual(before);
    await requireSchema(service);
    const from = await sequence(sql);
    await sql`update hotels set name = 'once' where id = 'h1'`;
    const one = postgresClient(ownerUrl);
    await one`set session_replication_role = replica`;
    await one`update hotels set name = 'applied' where id = 'h2'`;
    await one`update api_keys set revoked_at = now() where id = 'k1'`;
    await sequence(sql);
    const changes = (await logAfter(sql, from)).map(({ kind, id }) => (kind === 'keys' ? kind : id));
    expect(changes).toEqual(['keys', 'keys', 'h1', 'h2']);
  },
);

it('correct triggers are left as they are, and nobody waits for it', async () => {
  const { ownerUrl } = await freshDatabase();
  const writer = postgresClient(ownerUrl);
  await writer.unsafe(`begin; insert into hotels (id, name) values ('h', 'H')`).simple();
  const owner = postgresClient(ownerUrl, { connection: { lock_timeout: 5_000 } });
  await owner`select hotel_api_invalidate()`;
  await migrate(owner);
  await writer`commit`;
});

it('a rolled back statement and a rolled back transaction change nothing, and are not due', async () => {
  const { sql, ownerUrl } = await freshDatabase();
  const one = postgresClient(ownerUrl);
  await sql.unsafe(SEED).simple();
  const from = await sequence(sql);
  await one.unsafe(`begin; update hotels set name = 'undone'; rollback`).simple();
  await expect(one`update hotels set name = ''`).rejects.toThrow('hotels_name_is_not_empty');
  expect(await poll(sql)).toMatchObject({ last: from, isUnread: false, isDue: false });
  expect(await sequence(sql)).toBe(from);
});

it('a transaction that changes what caches hold is on disk before it is visible, whatever it sets', async () => {
  const one = postgresClient((await freshDatabase()).ownerUrl);
  // deferred triggers fire at its end
  const results = await one
    .unsafe(`begin; insert into hotels (id, name) values ('h', 'H'); set local synchronous_commit = off;
      set constraints all immediate; show synchronous_commit; commit`)
    .simple();
  expect(results.flat()).toEqual([{ synchronous_commit: 'on' }]);
});

it('what a subscription applies is in the log', async () => {
  const { ownerUrl } = await ownPostgres(40, undefined, { wal_level: 'logical' });
  const admin = postgresClient(ownerUrl);
  const [publisherUrl, subscriberUrl] = await Promise.all(
    ['publisher', 'subscriber'].map(async (name) => {
      await admin`create database ${admin(name)} template template0`;
      return Object.assign(new URL(ownerUrl), { pathname: `/${name}` }).href;
    }),
  );
  const [publisher, subscriber] = [postgresClient(publisherUrl!), postgresClient(subscriberUrl!)];
  await migrate(publisher);
  await migrate(subscriber);
  await publisher.unsafe(SEED).simple();
  await publisher.unsafe(
    'create publication all_of_it for table hotels, api_keys, collections, collection_hotels',
  );
  await publisher`select pg_create_logical_replication_slot('applied', 'pgoutput')`;
  const before = await allRows(subscriber);
  const from = await sequence(subscriber);
  await subscriber.unsafe(
    `create subscription applied connection '${publisherUrl}' publication all_of_it with (create_slot = false, slot_name = applied)`,
  );
  const applied = async (previous: Rows, since: number) => {
    const there = await allRows(publisher);
    await expect.poll(() => allRows(subscriber)).toEqual(there);
    await sequence(subscriber);
    await expectNamed(subscriber, previous, await logAfter(subscriber, since));
  };
  try {
    // the first copy, then row by row
    await applied(before, from);
    const some = ['a MERGE of all actions', 'renames of ids', 'a TRUNCATE of keys', 'a deleted collection'];
    for (const what of some) {
      const previous = await allRows(subscriber);
      const since = await sequence(subscriber);
      await publisher.unsafe(WRITES[what]!).simple();
      await applied(previous, since);
    }
  } finally {
    await subscriber.unsafe('alter subscription applied disable');
    await subscriber.unsafe('alter subscription applied set (slot_name = none)');
    await subscriber.unsafe('drop subscription applied');
  }
});
