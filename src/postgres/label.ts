import { hash } from 'node:crypto';
import type { Postgres } from './client.ts';
import { SETTINGS } from './connect.ts';
import type { Lane } from './lanes.ts';

/** A query, its parameters, and the owner and lane by which `Postgres` queues it. */
export type Query = [text: string, parameters: unknown[], owner?: string, lane?: Lane];

/** Rows and the position of the log at which they were read. */
export interface Labelled<Row> {
  label: number;
  rows: Row[];
}

/** History of which the log is followed, on which server, and the position up to which it was applied. */
export interface Applied {
  history: string;
  /** value of `SERVER` there */
  server: string;
  position: number;
}

/** Row with the newest row of the log. `found` is null in the only row if the query returns none. */
type MarkedRow<Row> = { label: number; history: string; server: string | null; found: true | null } & Row;

/**
 * SQL of a condition that is true in a falsified session of a pooler: another user of the login has left it temporary tables
 * or settings. Temporary tables are read in place of others. By settings a position loses digits, or a time is another.
 * Functions are never temporary, so nothing can replace these.
 */
export const IS_FALSIFIED = `(pg_my_temp_schema() <> 0 or ${falsifying()})`;
/** Value of `SERVER` in such a session. */
export const FALSIFIED = 'falsified';

/**
 * SQL of a text that differs between the running server with its database and any copy. It has the start of the server (µs of
 * its clock) and the path of a sequence's file, which names the database. That of a table changes with `VACUUM FULL` and
 * `CLUSTER`. Null on a replica, which has what its primary wrote.
 */
export const SERVER = `case when ${IS_FALSIFIED} then '${FALSIFIED}' when not pg_is_in_recovery() then
    (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint || ' ' || pg_relation_filepath('hotel_api_queue_number_seq') end`;

/**
 * A label is honest. The sequencer gives a change its position after the change has committed, in one later transaction. A
 * snapshot that shows a position therefore shows every change with a position up to it. A statement has one snapshot: rows
 * that are read together with the newest position contain all of these changes, on the primary and on a replica alike.
 * The label may be too low, if later changes have no position yet; it is never too high. A copy of the database shows the
 * same positions and history until something is sequenced there: its rows are rejected by `SERVER`.
 *
 * Returns the rows of a query with their label, or undefined if they may not be used: the server is behind what was
 * applied before the read began, is not the one that is followed, before or after it, or the session is falsified. While
 * nothing is known to be applied, any label will do.
 * The columns of the query must not be named `label`, `history`, `server` or `found`. Throws what `Postgres` throws.
 */
export async function readLabelled<Row>(
  postgres: Postgres,
  applied: () => Applied | undefined,
  ...[text, ...rest]: Query
): Promise<Labelled<Row> | undefined> {
  // its object may change during the read
  const before = { ...applied() };
  const rows = await postgres.rows<MarkedRow<Row>>(withLabel(text), ...rest);
  const [mark] = rows;
  // a log without rows is not the one that was applied
  if (!mark || mark.label < (before.position ?? 0)) return undefined;
  if (!isFollowed(mark, before) || !isFollowed(mark, applied())) return undefined;
  return { label: mark.label, rows: mark.found ? rows : [] };
}

/** Returns whether a snapshot is one of the server and history that are followed, or of a replica. */
function isFollowed(
  { history, server }: { history: string; server: string | null },
  applied: Partial<Applied> | undefined,
): boolean {
  if (server === FALSIFIED) return false;
  if (applied?.history === undefined) return true;
  return history === applied.history && (server === null || server === applied.server);
}

function withLabel(text: string): string {
  return `select mark.label, mark.history, mark.server, read.* from (
      select position::float8 as label, (state).history as history, ${SERVER} as server
      from hotel_api_log order by position desc limit 1
    ) as mark left join lateral (select true as found, query.* from (${text}) as query) as read on true`;
}

/**
 * Returns the prefix of the names in Redis. Labels are comparable within one history, and only while the server runs: an
 * older data folder can be put back by a restart alone, and its history then gives out the same positions again.
 */
export function prefixOf({ history, server }: Pick<Applied, 'history' | 'server'>): string {
  return hash('sha256', `${history} ${server}`, 'base64url').slice(0, 12);
}

/** Returns the condition that a setting has another value than the service needs, of those that the results of a statement depend on. */
function falsifying(): string {
  const { jit: _, default_transaction_isolation: __, ...ofStatements } = SETTINGS;
  return Object.entries(ofStatements)
    .map(([name, needed]) => {
      const setting = `current_setting('${name}')`;
      return name === 'extra_float_digits'
        ? `${setting}::integer < ${needed}`
        : `${setting} not like '${needed}%'`;
    })
    .join(' or ');
}
