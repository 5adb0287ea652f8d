import { createHash } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import type { Sql } from 'postgres';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { migrate } from '../../src/postgres/migrate.ts';
import { addressOf } from '../support/address.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { databaseAt, ownPostgres } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { type Service, startService } from '../support/service.ts';

/** The name must be quoted in SQL. */
const SCHEMA = 'Hotel "data"';
const HOTELS = '"Hotel ""data""".hotels';

let service: Service;
let allWorkers: AllWorkers;
/** owner of the schema */
let owner: Sql;
/** logins with rights on one table only, and without the schema on their path */
let writer: Sql;
let keyWriter: Sql;
/** another database with the same tables, the publisher of the first */
let upstream: Sql;
let upstreamUrl: string;

beforeAll(async () => {
  const server = await ownPostgres(100, undefined, {
    wal_level: 'logical',
    max_prepared_transactions: '5',
  });
  const admin = postgresClient(server.ownerUrl);
  const { password } = new URL(server.ownerUrl);
  for (const login of ['writer', 'key_writer'])
    await admin.unsafe(
      `create role ${login} login password '${password}'; alter role ${login} set search_path = ''`,
    );
  for (const name of ['hotels', 'upstream']) {
    await admin.unsafe(`create database ${name}`);
    await admin.unsafe(
      `alter database ${name} set search_path = ${JSON.stringify(SCHEMA).replaceAll('\\"', '""')}`,
    );
    const sql = postgresClient(addressOf(server.ownerUrl, { database: name }));
    await sql`create schema ${sql(SCHEMA)}`;
    await sql`alter default privileges revoke execute on functions from public`;
    await migrate(sql);
    if (name === 'hotels') owner = sql;
    else upstream = sql;
  }
  await owner`grant usage on schema ${owner(SCHEMA)} to writer, key_writer`;
  await owner`grant select, insert, update, delete, truncate on hotels to writer`;
  await owner`grant select, insert, update, delete, truncate on api_keys to key_writer`;
  writer = postgresClient(addressOf(server.ownerUrl, { database: 'hotels', username: 'writer' }));
  keyWriter = postgresClient(addressOf(server.ownerUrl, { database: 'hotels', username: 'key_writer' }));
  upstreamUrl = addressOf(server.ownerUrl, { database: 'upstream' });
  const url = addressOf(server.url, { database: 'hotels' });
  const ownerUrl = addressOf(server.ownerUrl, { database: 'hotels' });
  service = await startService({
    workers: 2,
    database: databaseAt(url, ownerUrl, owner),
  });
  allWorkers = await AllWorkers.of(service);
});

/** Waits until every worker returns it. Other tests measure the time, on an idle machine. */
async function received(path: string, isSo: Parameters<AllWorkers['until']>[1], key?: string): Promise<void> {
  await allWorkers.until(path, isSo, 15_000, key);
}

describe('changes by a writer with rights on the table only are detected:', () => {
  let id = '';
  let n = 0;

  /** Begins each test with a hotel that every worker has cached. */
  beforeEach(async () => {
    id = `h${++n}`;
    await writer.unsafe(`insert into ${HOTELS} (id, name, images, website_url, certified_from)
      values ('${id}', 'v1', '[{"url":"https://a.example/1.jpg","caption":null}]', 'https://a.example', '2020-01-01')`);
    await received(`/hotels/${id}`, named('v1'));
  });

  it('UPDATE, of the primary key too, and DELETE', async () => {
    await writer.unsafe(`update ${HOTELS} set name = 'v2' where id = '${id}'`);
    await received(`/hotels/${id}`, named('v2'));
    await writer.unsafe(`update ${HOTELS} set id = '${id}-renamed' where id = '${id}'`);
    await received(`/hotels/${id}`, status(404));
    await received(`/hotels/${id}-renamed`, named('v2'));
    await writer.unsafe(`delete from ${HOTELS} where id = '${id}-renamed'`);
    await received(`/hotels/${id}-renamed`, status(404));
  });

  it('COPY', async () => {
    const copied = await writer.unsafe(`copy ${HOTELS} (id, name) from stdin`).writable();
    await pipeline([`${id}-copied\tby copy\n`], copied);
    await received(`/hotels/${id}-copied`, named('by copy'));
  });

  it('MERGE', async () => {
    await writer.unsafe(`
      merge into ${HOTELS} as h using (values ('${id}', 'merged'), ('${id}-new', 'merged')) as s (id, name) on h.id = s.id
      when matched then update set name = s.name
      when not matched then insert (id, name) values (s.id, s.name)`);
    await received(`/hotels/${id}`, named('merged'));
    await received(`/hotels/${id}-new`, named('merged'));
    await writer.unsafe(`
      merge into ${HOTELS} as h using (values ('${id}')) as s (id) on h.id = s.id when matched then delete`);
    await received(`/hotels/${id}`, status(404));
  });

  it('a prepared statement', async () => {
    await writer.unsafe(`prepare rename as update ${HOTELS} set name = $2 where id = $1`);
    for (const name of Array.from({ length: 7 }, (_, i) => `prepared ${i}`)) {
      await writer.unsafe(`execute rename ('${id}', '${name}')`);
      await received(`/hotels/${id}`, named(name));
    }
  });

  it('a prepared transaction, once it is committed', async () => {
    await writer.unsafe(`begin; update ${HOTELS} set name = 'two phases' where id = '${id}'`).simple();
    await writer.unsafe(`prepare transaction '${id}'`);
    for (const response of await allWorkers.get(`/hotels/${id}`)) expect(named('v1')(response)).toBe(true);
    await writer.unsafe(`commit prepared '${id}'`);
    await received(`/hotels/${id}`, named('two phases'));
  });

  it('through a view of another owner', async () => {
    await owner`create view public.names as select id, name from hotels`;
    await owner`create role view_writer`;
    await owner`grant select, update on public.names to view_writer`;
    await owner`set role view_writer`;
    await owner`update public.names set name = 'by a view' where id = ${id}`;
    await owner`reset role`;
    await received(`/hotels/${id}`, named('by a view'));
  });

  it('TRUNCATE', async () => {
    await writer.unsafe(`truncate ${HOTELS}`);
    await received(`/hotels/${id}`, status(404));
  });

  it('of API keys', async () => {
    const { fullKey } = service;
    const sha256 = createHash('sha256').update(fullKey).digest('hex');
    const ofKey = `where key_sha256 = '\\x${sha256}'`;
    await keyWriter.unsafe(`update "Hotel ""data""".api_keys set expires_at = '2020-01-01' ${ofKey}`);
    await received('/hotels', status(401), fullKey);
    await keyWriter.unsafe(`update "Hotel ""data""".api_keys set expires_at = null ${ofKey}`);
    await received('/hotels', status(200), fullKey);
  });
});

describe('changes by logical replication are detected:', () => {
  beforeAll(async () => {
    await owner`truncate hotels`;
    await upstream`insert into hotels (id, name) values ('copied', 'by the first copy'), ('unchanged', 'u')`;
    await upstream`create publication everything for table hotels, api_keys`;
    // within one server the slot must exist beforehand
    await upstream`select pg_create_logical_replication_slot('mirror', 'pgoutput')`;
    await owner.unsafe(`
      create subscription mirror connection '${upstreamUrl}' publication everything
      with (create_slot = false, slot_name = 'mirror')`);
    closeAtEnd('subscription', async () => {
      await owner`alter subscription mirror disable`;
      await owner`alter subscription mirror set (slot_name = none)`;
      await owner`drop subscription mirror`;
      await upstream`select pg_drop_replication_slot('mirror')`;
    });
  });

  it('the initial copy', async () => {
    await received('/hotels/copied', named('by the first copy'));
  });

  it('INSERT, UPDATE, of the primary key too, and DELETE', async () => {
    await upstream`insert into hotels (id, name, channel_id) values ('there', 'v1', 'THERE')`;
    await received('/hotels/channel/THERE', named('v1'));
    await upstream`update hotels set name = 'v2' where id = 'there'`;
    await received('/hotels/there', named('v2'));
    await upstream`update hotels set id = 'elsewhere' where id = 'there'`;
    await received('/hotels/there', status(404));
    await received('/hotels/elsewhere', named('v2'));
    await upstream`delete from hotels where id = 'elsewhere'`;
    await received('/hotels/elsewhere', status(404));
    await received('/hotels/channel/THERE', status(404));
  });

  it('TRUNCATE', async () => {
    await received('/hotels/copied', status(200));
    await upstream`truncate hotels`;
    await received('/hotels/copied', status(404));
  });

  it('of an API key', async () => {
    const key = service.narrowKey;
    const sha256 = createHash('sha256').update(key).digest();
    await received('/hotels', status(200), key);
    await owner`delete from api_keys where key_sha256 = ${sha256}`;
    await upstream`insert into api_keys (id, name, key_sha256) values ('replicated', 'r', ${sha256})`;
    await received('/hotels', status(200), key);
    await upstream`update api_keys set revoked_at = now() where id = 'replicated'`;
    await received('/hotels', status(401), key);
  });
});

it('each change is recorded once, by ordinary sessions and by those of replication', async () => {
  const recorded = (role: string, change: string) =>
    owner.begin(async (sql) => {
      await sql.unsafe(`set local session_replication_role = ${role}`);
      await sql.unsafe(change);
      const rows = await sql<{ kind: string; ids: string[]; moves: boolean }[]>`
        select kind, ids, moves from hotel_api_queue
        where transaction = pg_current_xact_id()::text::bigint order by number`;
      return rows.map(({ kind, ids, moves }) => [kind, ids, moves]);
    });
  const steps: [change: string, expected: unknown[]][] = [
    [`insert into hotels (id, name) values ('once', 'v1')`, [['hotels', ['once'], true]]],
    [`update hotels set name = 'v2' where id = 'once'`, [['hotels', ['once'], false]]],
    [`delete from hotels where id = 'once'`, [['hotels', ['once'], true]]],
  ];
  for (const role of ['origin', 'replica'])
    for (const [change, expected] of steps) expect(await recorded(role, change)).toEqual(expected);
});
