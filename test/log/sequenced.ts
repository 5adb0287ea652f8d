import type { Sql, TransactionSql } from 'postgres';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';

/** One id of the log, or a row without ids, with its position. */
export interface Sequenced {
  position: number;
  kind: string;
  id: string | null;
  moves: boolean;
  channel: string | null;
  registry: string | null;
  collection: string | null;
}

/** Limits in the text of the sequencer, and those of `smallLog`. */
const LIMITS = {
  'max_piece constant bigint := 20000;': 'max_piece constant bigint := 2000;',
  'max_keys constant bigint := 100000;': 'max_keys constant bigint := 10000;',
  'max_scanned constant integer := 50000;': 'max_scanned constant integer := 5000;',
  'greatest(1000000,': 'greatest(10000,',
};

/** Creates a database whose log has begun; `from` is its last position. */
export async function freshLog(): Promise<FreshDatabase & { from: number }> {
  const database = await freshDatabase();
  return { ...database, from: await sequence(database.sql) };
}

/** Does the same with a sequencer that takes and scans a tenth at once, and remembers a hundredth of the ids. */
export async function smallLog(): ReturnType<typeof freshLog> {
  const database = await freshLog();
  const [row] = await database.sql`select pg_get_functiondef('hotel_api_sequence'::regproc) as text`;
  let text: string = row!.text;
  for (const [limit, smaller] of Object.entries(LIMITS)) {
    if (!text.includes(limit)) throw new Error(`the sequencer has no limit "${limit}"`);
    text = text.replace(limit, smaller);
  }
  await database.sql.unsafe(text);
  return database;
}

/** Returns what the log has after a position, but for the states of the sequencer. */
export async function logAfter(sql: Sql, position = 0): Promise<Sequenced[]> {
  return sql<Sequenced[]>`
    select (position - greatest(cardinality(ids), 1) + coalesce(number, 1))::float8 as position, kind, id, moves, channel,
      registry::text, collection_id as collection
    from hotel_api_log
      left join lateral unnest(ids, channel_ids, registry_ids) with ordinality as changed (id, channel, registry, number) on true
    where position > ${position} and kind <> 'drained' order by 1`;
}

/** Returns the ids of one kind in the log after a position, sorted. */
export async function idsAfter(sql: Sql, position: number, kind = 'hotels'): Promise<string[]> {
  const rows = (await logAfter(sql, position)).filter((row) => row.kind === kind);
  return rows.map(({ id }) => id!).sort();
}

/** Calls the sequencer once. Returns the last position. */
export async function sequence(sql: Sql): Promise<number> {
  const [row] = await sql<[{ position: number }]>`select hotel_api_sequence()::float8 as position`;
  return row.position;
}

/** State of the log, in PostgreSQL's form. */
export async function stateOf(sql: Sql) {
  const [row] = await sql<
    {
      position: number;
      transaction: string;
      history: string;
      pending: string[];
      log_from: number;
      oldest: number;
      oldest_of_collections: number;
      day: string;
      flips_after: string | null;
    }[]
  >`select position::float8, transaction::text, (state).history, (state).pending::text[], (state).log_from::float8,
      (state).oldest::float8, (state).oldest_of_collections::float8, (state).day::text, (state).flips_after
    from hotel_api_log order by position desc limit 1`;
  return row!;
}

/** Calls the sequencer until it has nothing more to do. Returns the number of calls that did something. */
export async function sequenceAll(sql: Sql): Promise<number> {
  for (let calls = 0, { position } = await stateOf(sql); ; calls++) {
    const last = await sequence(sql);
    if (last === position) return calls;
    position = last;
  }
}

/** Answer to a poll, without rows, or with the number of them. */
export async function poll(sql: Sql, after?: { position: number; transaction: string }) {
  const rows = await sql<
    {
      history: string | null;
      last: number | null;
      is_unread: boolean;
      is_due: boolean;
      is_continued: boolean | null;
      position: number | null;
      kind: string | null;
      ids: string[] | null;
    }[]
  >`select history, last::float8, is_unread, is_due, is_continued, position::float8, kind, ids
    from hotel_api_poll(${after?.position ?? null}::float8::bigint, ${after?.transaction ?? null}::bigint, 100)`;
  const { history, last, is_unread, is_due, is_continued } = rows[0]!;
  const found = rows.filter(({ position }) => position !== null);
  return { history, last, isUnread: is_unread, isDue: is_due, isContinued: is_continued, rows: found };
}

/** Returns the number of blocks that a statement reads, from memory or disk. */
export async function blocksOf(sql: Sql, statement: string): Promise<number> {
  const [row] = await sql.unsafe(`explain (analyze, buffers, format json) ${statement}`);
  const [{ Plan: plan }] = row!['QUERY PLAN'] as [{ Plan: Record<string, number> }];
  return plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!;
}

/** Inserts hotels with these ids. */
export async function insertHotels(sql: Sql | TransactionSql, ids: readonly string[]): Promise<void> {
  await sql`insert into hotels (id, name) select id, 'Hotel' from unnest(${ids as string[]}::text[]) as id`;
}

/** Writes the rows of the queue that single statements write, one for each of `count` ids, which begin with `prefix`. */
export async function queueSingly(sql: Sql, count: number, prefix: string): Promise<void> {
  await sql`insert into hotel_api_queue (kind, ids, channel_ids, registry_ids, size)
    select 'hotels', array[${prefix}::text || i], array[null], array[null]::bigint[], 1
    from generate_series(1, ${count}::integer) as i`;
}

/** Changes fields of the newest state, as if it had been written so: `day` and `ids` of a state in SQL. */
export async function changeState(sql: Sql, assignments: string): Promise<void> {
  await sql.unsafe(`update hotel_api_log set transaction = pg_current_xact_id()::text::bigint, ${assignments}
    where position = (select max(position) from hotel_api_log)`);
}
