import type { Sql } from 'postgres';
import { monotonicMs } from '../lib/clock.ts';
import { withDeadline } from '../lib/deadline.ts';
import { LOG_KINDS, type LogKind } from '../observability/metrics.ts';
import { BEGIN_WRITING, completed } from '../postgres/connect.ts';
import { FALSIFIED, IS_FALSIFIED, SERVER } from '../postgres/origin.ts';
import { OPEN_TIMEOUT_MS, POLL_TIMEOUT_MS } from './freshness.ts';

/** Timeout of a message that calls the sequencer. The server has the whole transaction, and finishes it. */
const SEQUENCE_TIMEOUT_MS = 5_000;

/** Maximum number of rows that are read at once, each of up to 1000 ids. With ids of any length they arrive within its timeout. */
export const MAX_LOG_ROWS = 20;

const POLL = (
  after: string,
) => `select history, ${SERVER} as server, last::float8, last_transaction as "lastTransaction",
  is_unread as "isUnread", is_due as "isDue", is_continued as "isContinued", position::float8, transaction, kind, moves,
  ids, channel_ids as "channelIds", registry_ids as "registryIds", collection_id as collection
  from hotel_api_poll(${after}, ${MAX_LOG_ROWS})`;
const POLL_ONLY = POLL('$1, $2');
/** Rows before a position, the last first, in one snapshot with the position before which all are deleted. */
const BEFORE = `select state.log_from::float8 as "deletedTo", position::float8, transaction, kind, moves, ids,
    to_json(channel_ids) as "channelIds", to_json(registry_ids::text[]) as "registryIds", collection_id as collection,
    extract(epoch from clock_timestamp() - at)::float8 * 1000 as "ageMs"
  from (
    select (state).log_from from hotel_api_log where not ${IS_FALSIFIED} and position >= $1 order by position desc limit 1
  ) as state
  left join lateral (
    select * from hotel_api_log
    where position <= $1 and kind not in ('listed', 'drained') order by position desc limit $2
  ) as row on true order by position desc`;

const RECONNECT =
  'a session of the pooler has temporary tables, or settings that change results: make the pooler reconnect';

/** Row of the log that caches apply. */
export interface LogRow {
  /** of its last id */
  position: number;
  kind: LogKind;
  /** of hotels: they were inserted, deleted or renamed, which moves the positions of the list; of all hotels: some may have been */
  moves: boolean;
  /** hotels, keys by their sha256 in hexadecimal, or collections */
  ids: string[];
  /** of hotels, their present other ids, null where there is none */
  channelIds: (string | null)[];
  registryIds: (string | null)[];
  /** of members, which always have one */
  collection: string | null;
}

/** Marks how far a history of the database was read. */
export interface LogCursor {
  position: number;
  /** identifies the row there among those of a lost future */
  transaction: string;
}

/** Answer to a poll: the rows after a cursor, and the state of the log in the same snapshot. */
export interface Poll {
  history: string;
  /** see `SERVER`; differs after a restart */
  server: string;
  /** changes have committed that are not in the log */
  isUnread: boolean;
  /** the sequencer has something to do */
  isDue: boolean;
  /** false: the database has gone back; null: the cursor is no longer in the log */
  isContinued: boolean | null;
  rows: LogRow[];
  /** the cursor that is reached with `rows` */
  cursor: LogCursor;
  /** there may be more rows behind it */
  isCut: boolean;
  /** everything that had committed by this time, by `monotonicMs`, is in the log up to `cursor`; undefined: perhaps not */
  asOfMs: number | undefined;
}

/** A row as it is read; its position is null if there is none. */
type Row = { [Column in keyof (LogRow & LogCursor)]: (LogRow & LogCursor)[Column] | null };
type StateRow = Row &
  Omit<Poll, 'rows' | 'cursor' | 'isCut' | 'asOfMs'> & { last: number; lastTransaction: string };

/** A history of the database, and the cursor at which an instance begins to follow it. */
export interface HistoryStart extends LogCursor {
  history: string;
  /** signs the values of keys in Redis; never logged */
  secret: Uint8Array;
}

/** Reads the log and calls the sequencer over one ordinary connection, which a pooler in transaction mode may serve. */
export class LogConnection {
  readonly #sql: Sql;
  #isOpen = false;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Reads the rows after a cursor; undefined: only the state. The first poll opens the connection, by several round trips. */
  async poll(after: LogCursor | undefined): Promise<Poll> {
    if (!this.#isOpen) await this.#rows('select', [], OPEN_TIMEOUT_MS);
    this.#isOpen = true;
    const beganMs = monotonicMs();
    const cursor = [after?.position ?? null, after?.transaction ?? null];
    const poll = pollOf(await this.#rows<StateRow>(POLL_ONLY, cursor, POLL_TIMEOUT_MS), beganMs);
    return poll.isUnread ? { ...poll, asOfMs: undefined } : poll;
  }

  /**
   * Calls the sequencer, then polls, in one message. The sequencer's transaction is committed before the poll begins, so
   * no row is returned that could be taken back, and everything that had committed before this call is in the log.
   */
  async sequenceAndPoll(after: LogCursor | undefined): Promise<Poll> {
    const beganMs = monotonicMs();
    const cursor = after ? `${after.position}, ${after.transaction}` : 'null, null';
    const results = await this.#write(`select hotel_api_sequence(); commit; ${POLL(cursor)}`);
    return pollOf(results.at(-1)!, beganMs);
  }

  /** Returns the present history and its end. */
  async historyStart(): Promise<HistoryStart> {
    const [row] = await this.#rows<Omit<HistoryStart, 'secret'> & { secret: string }>(
      `select history, position::float8, transaction, encode(secret, 'hex') as secret from hotel_api_history()
      where not ${IS_FALSIFIED}`,
      [],
      POLL_TIMEOUT_MS,
    );
    if (!row)
      throw new Error(
        `the log or the secret is missing in hotel_api_log or hotel_api_secrets, or ${RECONNECT}`,
      );
    return { ...row, secret: Buffer.from(row.secret, 'hex') };
  }

  /** Begins another history, unless `known` is over already, or has the row at this cursor after all. */
  async beginHistory(known: string, { position, transaction }: LogCursor): Promise<void> {
    // both are numbers
    const call = `select hotel_api_begin_history('${known.replaceAll("'", "''")}', ${position}, ${transaction})`;
    await this.#write(`${call}; commit`);
  }

  /**
   * Returns at most `MAX_LOG_ROWS` rows up to a position, the last first, each with its age in ms, and the position up to
   * which the log is deleted. Throws if the server lacks the position, as a replica may that is behind.
   */
  async rowsBefore(position: number): Promise<{ rows: (LogRow & { ageMs: number })[]; deletedTo: number }> {
    type Found = Row & { deletedTo: number; ageMs: number };
    const found = await this.#rows<Found>(BEFORE, [position, MAX_LOG_ROWS], 2 * POLL_TIMEOUT_MS);
    if (!found[0]) throw new Error(`the log lacks position ${position}, or ${RECONNECT}`);
    const rows = found.filter((row) => row.position !== null);
    return {
      rows: rows.map((row) => ({ ...rowOf(row), ageMs: row.ageMs })),
      deletedTo: found[0].deletedTo,
    };
  }

  async end(): Promise<void> {
    await this.#sql.end({ timeout: 0 });
  }

  async #rows<Found>(text: string, parameters: unknown[], timeoutMs: number): Promise<Found[]> {
    const query = this.#sql.unsafe(text, parameters as never[], { prepare: true });
    return completed(await withDeadline(query, timeoutMs)) as unknown as Found[];
  }

  async #write(statements: string): Promise<StateRow[][]> {
    const query = this.#sql.unsafe(`${BEGIN_WRITING}; ${statements}`).simple();
    return completed(await withDeadline(query, SEQUENCE_TIMEOUT_MS)) as unknown as StateRow[][];
  }
}

/** `beganMs`: when the message was sent, by `monotonicMs`. */
function pollOf(found: StateRow[], beganMs: number): Poll {
  const [state] = found;
  if (!state) throw new Error('the log is empty: run hotel-api migrate');
  if (state.server === FALSIFIED) throw new Error(RECONNECT);
  const { history, server, last, lastTransaction, isUnread, isDue, isContinued } = state;
  const rows = found.filter(({ position }) => position !== null);
  const isCut = rows.length === MAX_LOG_ROWS;
  const { position, transaction } = isCut ? rows.at(-1)! : { position: last, transaction: lastTransaction };
  return {
    ...{ history, server, isUnread, isDue, isContinued, isCut },
    rows: rows.map(rowOf),
    cursor: { position: position!, transaction: transaction! },
    asOfMs: isCut ? undefined : beganMs,
  };
}

function rowOf({ position, kind, moves, ids, channelIds, registryIds, collection }: Row): LogRow {
  // what a later release adds is not known here: anything may have changed
  const known = LOG_KINDS.find((each) => each === kind);
  return {
    position: position!,
    kind: known ?? 'all_hotels',
    moves: moves || known === undefined,
    ...{ ids: ids ?? [], channelIds: channelIds ?? [], registryIds: registryIds ?? [], collection },
  };
}
