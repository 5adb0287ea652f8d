import type { Sql } from 'postgres';
import { expect, it } from 'vitest';
import { freshDatabase } from '../support/database.ts';
import { postgresClient, untilBlocked } from '../support/postgres-client.ts';
import { freshLog, idsAfter, insertHotels, logAfter, poll, sequence, stateOf } from './sequenced.ts';

async function secretOf(sql: Sql): Promise<string | undefined> {
  const [row] = await sql`select encode(secret, 'hex') as secret from hotel_api_history()`;
  return row?.secret;
}

/** A log with a few changes. */
async function withLog() {
  const database = await freshLog();
  for (const id of ['one', 'two', 'three']) {
    await insertHotels(database.sql, [id]);
    await sequence(database.sql);
  }
  return { ...database, before: await stateOf(database.sql), secret: await secretOf(database.sql) };
}

/** Begins another history, as an instance does that has applied up to this cursor and finds it gone. */
const beginHistory = (sql: Sql, { history, position, transaction }: Awaited<ReturnType<typeof stateOf>>) =>
  sql`select hotel_api_begin_history(${history}, ${position}, ${transaction}::bigint)`;

/** Asserts that the next poll of a starting instance is due, and that another history begins then, behind all positions. */
async function expectAnother(sql: Sql, before: { history: string }, secret: string | undefined) {
  expect((await poll(sql)).isDue).toBe(true);
  const [row] = await sql`select coalesce(max(position), 0)::float8 as last from hotel_api_log`;
  const last = row!.last;
  await sequence(sql);
  const begun = await stateOf(sql);
  expect(begun.history).not.toBe(before.history);
  expect(begun.position).toBe(last + 4);
  expect(begun.oldest).toBe(last + 3);
  const other = await secretOf(sql);
  expect(other).toMatch(/^[0-9a-f]{64}$/);
  expect(other).not.toBe(secret);
  const kinds = ['all_hotels', 'all_keys', 'all_collections'];
  expect((await logAfter(sql, last)).map(({ kind }) => kind)).toEqual(kinds);
  expect(await poll(sql)).toMatchObject({ isDue: false, history: begun.history });
  await insertHotels(sql, ['behind']);
  await sequence(sql);
  expect(await idsAfter(sql, begun.position)).toEqual(['behind']);
  expect((await stateOf(sql)).history).toBe(begun.history);
}

it('a copy by template begins a history of its own before anything is read from it', async () => {
  const original = await withLog();
  // a template must have no connections
  await original.sql.end();
  const { sql } = await freshDatabase(original.name);
  await expectAnother(sql, original.before, original.secret);
  const again = postgresClient(original.ownerUrl);
  expect(await stateOf(again)).toMatchObject({ history: original.before.history });
  expect(await poll(again)).toMatchObject({ isDue: false });
  await again.end();
});

const restoreRows = (sql: Sql) =>
  sql.begin(async (restore) => {
    await restore`create temporary table dumped on commit drop as select * from hotel_api_log`;
    await restore`delete from hotel_api_log`;
    await restore`insert into hotel_api_log select * from dumped`;
  });
const loseEnd = (sql: Sql, last: number) => sql`delete from hotel_api_log where position = ${last}`;

it.each<[what: string, lose: (sql: Sql, last: number) => Promise<unknown>, state?: object]>([
  ['restored rows of the log', restoreRows, {}],
  ['a lost log', (sql) => sql`delete from hotel_api_log`, { history: null, last: null }],
  // the state is lost with it
  ['a log whose end is lost', loseEnd, { history: null }],
  ['a missing secret, when an instance starts,', (sql) => sql`delete from hotel_api_secrets`],
])('%s begin(s) another history', async (_, lose, state) => {
  const { sql, before, secret } = await withLog();
  await lose(sql, before.position);
  // instances see it at their next poll
  if (state) expect(await poll(sql, before)).toMatchObject({ isDue: true, ...state });
  await expectAnother(sql, before, secret);
});

it('a queue restored from a server with other transactions harms nothing', async () => {
  const { sql, before, secret } = await withLog();
  await sql`insert into hotel_api_queue (transaction, kind, ids, size)
    select transaction, 'hotels', array['restored'], 1
    from unnest(array[1, pg_current_xact_id()::text::bigint + 100, pg_current_xact_id()::text::bigint + 100000000, 9223372036854775807])
      as transaction`;
  await sql`update hotel_api_log set at = at`;
  await expectAnother(sql, before, secret);
  const left = await sql`select from hotel_api_queue where ids = array['restored']`;
  expect(left.length).toBeLessThanOrEqual(1);
});

it('an older log, put back, begins another history as soon as an instance that was further polls', async () => {
  const { sql, before, secret } = await withLog();
  const older = await logAfter(sql, before.position - 2);
  expect(older).toMatchObject([{ id: 'three' }]);
  await sql`delete from hotel_api_log where position > ${before.position - 2}`;
  expect(await poll(sql, before)).toMatchObject({ isContinued: false, history: before.history });
  await beginHistory(sql, before);
  const begun = await stateOf(sql);
  expect(begun.history).not.toBe(before.history);
  expect(await secretOf(sql)).not.toBe(secret);
  // the others find it begun
  await beginHistory(sql, before);
  expect(await stateOf(sql)).toEqual(begun);
  // the owner begins another by hand
  await sql`select hotel_api_begin_history(history, position, 0) from hotel_api_history()`;
  expect((await stateOf(sql)).history).not.toBe(begun.history);
});

it('another future has other numbers of transactions, also behind an older data folder, where they repeat', async () => {
  const { sql, before } = await withLog();
  const rows = await sql.begin(async (future) => {
    const append = () => future`
      insert into hotel_api_log (position, kind, moves) values (${before.position + 1}, 'all_hotels', true)
      returning transaction::text, xmin = transaction::text::xid8::xid as is_of_transaction`;
    const lost = await append();
    await future`delete from hotel_api_log where position > ${before.position}`;
    return [...lost, ...(await append())];
  });
  expect(rows).toMatchObject([{ is_of_transaction: true }, { is_of_transaction: true }]);
  expect(rows[0]!.transaction).not.toBe(rows[1]!.transaction);
});

it('several instances that find the database gone back begin one history', async () => {
  const { sql, ownerUrl, before } = await withLog();
  await sql`delete from hotel_api_log where position > ${before.position - 2}`;
  const holder = postgresClient(ownerUrl);
  await holder.unsafe('begin; lock table hotel_api_sequencer in exclusive mode').simple();
  const all = Promise.all(Array.from({ length: 4 }, () => beginHistory(postgresClient(ownerUrl), before)));
  await untilBlocked(sql);
  await holder`rollback`;
  await all;
  const rows = await logAfter(sql, before.position - 2);
  expect(rows.map(({ kind }) => kind)).toEqual(['all_hotels', 'all_keys', 'all_collections']);
});

it('what commits while a history begins is read in it', async () => {
  const { sql, ownerUrl, before } = await withLog();
  const [one, two] = [postgresClient(ownerUrl), postgresClient(ownerUrl)];
  await sql`delete from hotel_api_log`;
  await one`begin`;
  await insertHotels(one, ['open']);
  await two`begin`;
  await two`select hotel_api_sequence()`;
  await insertHotels(sql, ['between']);
  await two`commit`;
  await one`commit`;
  const begun = await stateOf(sql);
  expect(begun.history).not.toBe(before.history);
  expect(await poll(sql)).toMatchObject({ isUnread: true, isDue: true });
  await sequence(sql);
  expect(await idsAfter(sql, begun.position)).toEqual(['between', 'open']);
});
