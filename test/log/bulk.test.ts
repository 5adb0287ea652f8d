import type { Sql, TransactionSql } from 'postgres';
import { expect, it } from 'vitest';
import { postgresClient } from '../support/postgres-client.ts';
import {
  blocksOf,
  freshLog,
  idsAfter,
  insertHotels,
  logAfter,
  poll,
  queueSingly,
  sequence,
  sequenceAll,
  smallLog,
  stateOf,
} from './sequenced.ts';

/** More than the sequencer of a small database lists at once. */
const MANY = 6_000;
/** Ids of one piece of a large transaction, and of one row more. */
const MAX_PIECE = 3_000;

/** Ids of `insertMany` and `queueMany`. */
const ALL = Array.from({ length: MANY }, (_, i) => `many-${i}`).sort();

async function insertMany(sql: Sql, count = MANY): Promise<void> {
  await sql`insert into hotels (id, name) select 'many-' || i, 'Hotel' from generate_series(0, ${count}::integer - 1) as i`;
}

/** Writes the rows of the queue that `insertMany` leaves, without the hotels. */
async function queueMany(sql: Sql | TransactionSql, count = MANY, prefix = 'many-'): Promise<void> {
  await sql`insert into hotel_api_queue (kind, ids, channel_ids, registry_ids, size, moves)
    select 'hotels', array_agg(${prefix}::text || i), array_agg(null::text), array_agg(null::bigint), count(*), true
    from generate_series(0, ${count}::integer - 1) as i group by i / 1000`;
}

it('caches know of a large transaction by one row, and mirrors by pieces behind what has come since', async () => {
  const { sql, from } = await smallLog();
  const before = await stateOf(sql);
  await insertMany(sql);
  await sequence(sql);
  const begun = await stateOf(sql);
  expect((await logAfter(sql, from))[0]).toMatchObject({
    kind: 'all_hotels',
    position: from + 1,
    moves: true,
  });
  expect(begun.pending).toHaveLength(1);
  expect(begun.oldest).toBe(before.oldest);
  expect(begun.position - from).toBeLessThanOrEqual(MAX_PIECE + 2);
  // caches have all of it by the first poll
  expect(await poll(sql, before)).toMatchObject({
    isUnread: false,
    isDue: true,
    rows: [{ kind: 'all_hotels' }],
  });
  // what commits behind it is in the next drain, keys and hotels before the next piece
  await insertHotels(sql, ['behind']);
  await sql`insert into api_keys (id, name, key_sha256) values ('k', 'Key', sha256('k'))`;
  await sequence(sql);
  const next = await logAfter(sql, begun.position);
  expect(next[0]).toMatchObject({ kind: 'keys' });
  expect(next[1]).toMatchObject({ kind: 'hotels', id: 'behind' });
  expect(next.slice(2).every(({ kind }) => kind === 'listed')).toBe(true);
  expect((await poll(sql, begun)).rows).toMatchObject([
    { kind: 'keys' },
    { kind: 'hotels', ids: ['behind'] },
  ]);
  await sequenceAll(sql);
  expect(await idsAfter(sql, from, 'listed')).toEqual(ALL);
  expect(await stateOf(sql)).toMatchObject({ pending: [], oldest: before.oldest });
  expect(await poll(sql)).toMatchObject({ isDue: false });
});

it('a large update leaves the positions of the list, unless a hotel comes or goes beside it', async () => {
  const { sql } = await smallLog();
  await insertMany(sql, MAX_PIECE + 1);
  await sequenceAll(sql);
  let from = (await stateOf(sql)).position;
  await sql`update hotels set name = 'Other'`;
  await sequence(sql);
  expect((await logAfter(sql, from))[0]).toMatchObject({ kind: 'all_hotels', moves: false });
  await sequenceAll(sql);
  from = (await stateOf(sql)).position;
  await sql.begin(async (writer) => {
    await writer`update hotels set name = 'Third'`;
    await writer`delete from hotels where id = ${ALL[0]!}`;
  });
  await sequence(sql);
  expect((await logAfter(sql, from))[0]).toMatchObject({ kind: 'all_hotels', moves: true });
});

it('small transactions beside a large one are listed at once, and medium ones behind it', async () => {
  const { sql, from } = await smallLog();
  await queueMany(sql, 2_000, 'medium-');
  await queueMany(sql);
  await insertHotels(sql, ['small']);
  await sequence(sql);
  const rows = await logAfter(sql, from);
  expect(rows[0]).toMatchObject({ kind: 'all_hotels' });
  expect(rows[1]).toMatchObject({ kind: 'listed', id: 'small' });
  expect((await stateOf(sql)).pending.length).toBeGreaterThan(0);
  await sequenceAll(sql);
  const medium = Array.from({ length: 2_000 }, (_, i) => `medium-${i}`);
  expect(await idsAfter(sql, from, 'listed')).toEqual([...ALL, ...medium, 'small'].sort());
});

it('of a large transaction of single statements, which is listed too, the sequencer reads each row once', async () => {
  const { sql, from } = await freshLog();
  await queueSingly(sql, 61_000, 'single-');
  await sql`set enable_seqscan = off`;
  await sql`set enable_bitmapscan = off`;
  const once = await blocksOf(
    sql,
    `select sum(size) from (select (state).snapshot from hotel_api_log order by position desc limit 1) as newest,
      hotel_api_queued(snapshot, pg_current_snapshot())`,
  );
  // beside the first piece of ids, which is 3 % of them
  expect(await blocksOf(sql, 'select hotel_api_sequence()')).toBeLessThan(2 * once);
  expect((await logAfter(sql, from))[0]).toMatchObject({ kind: 'all_hotels' });
  await sequenceAll(sql);
  expect(new Set(await idsAfter(sql, from, 'listed')).size).toBe(61_000);
});

it('what is pending survives sequencers that end in the middle', async () => {
  const { sql, ownerUrl, from } = await smallLog();
  const one = postgresClient(ownerUrl);
  await queueMany(sql);
  let calls = 0;
  for (let last = -1; ; calls++) {
    // each piece is given out once in vain
    await one.unsafe('begin; select hotel_api_sequence(); rollback').simple();
    const position = await sequence(sql);
    if (position === last) break;
    last = position;
  }
  expect(calls).toBeGreaterThan(2);
  expect(await idsAfter(sql, from, 'listed')).toEqual(ALL);
  expect(await logAfter(sql, from)).toHaveLength(1 + MANY);
});

it('behind a TRUNCATE mirrors begin again, and what is reloaded with it is not listed', async () => {
  const { sql, ownerUrl } = await smallLog();
  await queueMany(sql);
  await sequence(sql);
  expect((await stateOf(sql)).pending).toHaveLength(1);
  const from = (await stateOf(sql)).position;
  await postgresClient(ownerUrl)
    .unsafe(`begin; truncate hotels; insert into hotels (id, name) values ('reloaded', 'Hotel'); commit`)
    .simple();
  await sequence(sql);
  const { oldest, pending } = await stateOf(sql);
  expect(await logAfter(sql, from)).toMatchObject([{ kind: 'all_hotels', position: oldest }]);
  expect(pending).toEqual([]);
  await insertHotels(sql, ['behind']);
  await sequence(sql);
  expect(await idsAfter(sql, oldest)).toEqual(['behind']);
});

it('more rows of the queue than the log remembers ids, as after a night without instances, let mirrors begin again', async () => {
  const { sql, from } = await smallLog();
  // the last of them may be of any kind, and no call reads so far
  await queueSingly(sql, 10_001, 'h');
  await sequence(sql);
  const last = await stateOf(sql);
  expect(await logAfter(sql, from)).toMatchObject([
    { kind: 'all_keys' },
    { kind: 'all_collections', position: last.oldest_of_collections },
    { kind: 'all_hotels', moves: true, position: last.oldest },
  ]);
  expect(last.pending).toEqual([]);
  expect(await poll(sql)).toMatchObject({ isUnread: false, isDue: false });
});

it.each([
  ['hotels', null, 'oldest'],
  ['keys', null, undefined],
  ['collections', 'c', 'oldest_of_collections'],
] as const)(
  'more %s than the log remembers ids are one row, and mirrors of them begin again',
  async (...kind) => {
    const [what, collection, oldest] = kind;
    const { sql, from } = await smallLog();
    const before = await stateOf(sql);
    await sql`insert into hotel_api_queue (kind, collection_id, ids, channel_ids, registry_ids, size)
    select ${collection ? 'members' : what}, ${collection}, array(select 'h' || n from generate_series(1, 1000) as n), '{}', '{}', 1000
    from generate_series(1, 11)`;
    await sequence(sql);
    expect(await logAfter(sql, from)).toMatchObject([{ kind: `all_${what}`, position: from + 1 }]);
    const { oldest: ofHotels, oldest_of_collections } = before;
    const expected = {
      oldest: ofHotels,
      oldest_of_collections,
      pending: [],
      ...(oldest && { [oldest]: from + 1 }),
    };
    expect(await stateOf(sql)).toMatchObject(expected);
  },
);

it('rows of the queue are deleted, those of a large transaction behind its last piece', async () => {
  const { sql } = await smallLog();
  await queueMany(sql);
  await sequence(sql);
  await insertHotels(sql, ['behind']);
  await sequence(sql);
  const [first] = (await stateOf(sql)).pending;
  const left = async () => {
    const [row] = await sql<[{ left: number }]>`
      select count(*)::integer as left from hotel_api_queue where transaction = ${first!}::bigint`;
    return row.left;
  };
  expect(await left()).toBe(MANY / 1_000);
  await sequenceAll(sql);
  for (let i = 0; (await sql`select from hotel_api_queue`).length > 1; i++) {
    await insertHotels(sql, [`again-${i}`]);
    await sequence(sql);
  }
  expect(await left()).toBe(0);
});
