import { hash } from 'node:crypto';
import type { Sql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import { copyIn, copyRow } from '../copy.ts';
import type { Format } from './format.ts';
import { IMPORTED_COLUMNS } from './hotel.ts';
import type { Mark } from './lines.ts';
import { type Read, readRecords } from './records.ts';
import type { Source } from './source.ts';

/** Goes up when lines are staged or judged in another way, so that no release goes on from what another has staged. */
const STAGING_VERSION = 2;
/** A batch is a transaction: so much is read again after a crash, at most. */
const BATCH_BYTES = 4 * 1024 * 1024;
/** An import that nobody has gone on with for so long is given up. */
const KEPT_DAYS = 7;
const PREFIX = 'hotel_api_import_';
const UNIQUE_VIOLATION = '23505';
const UNDEFINED_TABLE = '42P01';

/** What is staged of a source. */
export interface Staged {
  /** lines that are not blank */
  lines: number;
  rejected: number;
  /** rejected lines of which not even the hotel's id could be told */
  withoutId: number;
}

/**
 * The lines of one source, read and checked, in a table of their own that outlives this process: line, starts_at,
 * ends_at, fault (null for a line that is right), converted_uris (how many) and the columns of a hotel. It is found again by the content of the
 * source, so an import that was interrupted goes on behind the last line that is in it.
 */
export class Staging {
  readonly table: string;
  readonly #sql: Sql;
  readonly #source: Source;
  readonly #format: Format;

  private constructor(sql: Sql, table: string, source: Source, format: Format) {
    this.#sql = sql;
    this.table = table;
    this.#source = source;
    this.#format = format;
  }

  /** Makes the table, or finds it as an earlier import of the same content has left it. */
  static async open(sql: Sql, source: Source, format: Format): Promise<Staging> {
    const about = [STAGING_VERSION, format.name, IMPORTED_COLUMNS.join(), await source.identity()].join('|');
    const table = `${PREFIX}${hash('sha256', about, 'hex').slice(0, 24)}`;
    await dropForgotten(sql);
    await sql.begin(async (transaction) => {
      // of several that start at once one makes the table
      await transaction`select pg_advisory_xact_lock(hashtext(${table}))`;
      const [found] = await transaction`select to_regclass(${table}) is not null as present`;
      if (!found!.present) {
        await transaction.unsafe(`
          create table ${table} as
          select 0::bigint as line, 0::float8 as starts_at, 0::float8 as ends_at, null::text as fault, 0 as converted_uris,
            ${IMPORTED_COLUMNS.join(', ')}
          from hotels with no data`);
        await transaction.unsafe(`alter table ${table} add primary key (line)`);
      }
      await transaction.unsafe(`comment on table ${table} is 'import, ${new Date().toISOString()}'`);
    });
    return new Staging(sql, table, source, format);
  }

  /** Where reading has to go on; undefined when nothing is staged yet. Waits for a batch that is being written. */
  async mark(): Promise<Mark | undefined> {
    return this.#sql.begin(async (transaction) => {
      // that of a process which was killed, as a rule
      await transaction.unsafe(`lock table ${this.table} in share row exclusive mode`);
      const [last] = await transaction.unsafe<{ number: number; start: number }[]>(
        `select line::float8 as number, ends_at + 1 as start from ${this.table} order by line desc limit 1`,
      );
      return last;
    });
  }

  /**
   * Reads what is missing, from `mark` on. `onRead` hears of every piece before it is staged, `onKept` whether what
   * is staged outlives an error.
   */
  async fill(
    mark: Mark | undefined,
    { onRead, onKept }: { onRead: (records: Read[]) => void; onKept: (keeps: boolean) => void },
  ): Promise<void> {
    const records = readRecords(this.#source, this.#format, mark ?? this.#format.mark);
    let isDone = false;
    async function* batch(): AsyncGenerator<string> {
      for (let bytes = 0; bytes < BATCH_BYTES; ) {
        const { value, done } = await records.next();
        isDone = done === true;
        if (isDone) return;
        onRead(value);
        let rows = '';
        for (const { line, start, end, fault, convertedUris, hotel } of value as Read[])
          rows += copyRow([
            line,
            start,
            end,
            fault,
            convertedUris,
            ...IMPORTED_COLUMNS.map((column) => hotel[column]),
          ]);
        bytes += rows.length;
        if (rows !== '') yield rows;
      }
    }
    try {
      while (!isDone) {
        await this.#sql.begin(async (transaction) => {
          await transaction`set local statement_timeout = 0`;
          // What a crash of the server takes of this it takes from the end, and it is read again.
          await transaction`set local synchronous_commit = off`;
          await transaction`set local client_connection_check_interval = '1s'`;
          await copyIn(transaction, `copy ${this.table} from stdin`, batch);
        });
        onKept(true);
      }
    } catch (error) {
      // What cannot be read to its end has to come again as another content.
      if (error instanceof Failure) {
        await this.drop();
        onKept(false);
      }
      throw error;
    } finally {
      await records.return(undefined);
    }
  }

  /** The wrong lines that are staged, some at a time. */
  async *faults(): AsyncGenerator<{ line: number; fault: string }[]> {
    const rows = this.#sql.unsafe<{ line: number; fault: string }[]>(
      `select line::float8 as line, fault from ${this.table} where fault is not null order by line`,
    );
    yield* rows.cursor(1_000);
  }

  /** Counts what is staged. */
  async count(): Promise<Staged> {
    const [counts] = await this.#sql.unsafe<[Staged]>(`
      select count(*)::float8 as lines, count(fault)::float8 as rejected,
        (count(*) - count(id))::float8 as "withoutId" from ${this.table}`);
    return counts;
  }

  async drop(): Promise<void> {
    await this.#sql.unsafe(`drop table if exists ${this.table}`);
  }
}

/** True for an error that tells that another process has staged or merged the same lines meanwhile. */
export function isTakenOver(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  return (code === UNIQUE_VIOLATION || code === UNDEFINED_TABLE) && (message?.includes(PREFIX) ?? false);
}

/** Drops the tables of imports that were interrupted and never gone on with. */
async function dropForgotten(sql: Sql): Promise<void> {
  const forgotten = await sql<{ name: string }[]>`
    select oid::regclass::text as name from pg_class
    where relkind = 'r' and relname like 'hotel\\_api\\_import\\_%' and pg_table_is_visible(oid)
      and substring(obj_description(oid, 'pg_class') from '^import, (.*)$')::timestamptz
        < now() - make_interval(days => ${KEPT_DAYS})`;
  for (const { name } of forgotten) await sql.unsafe(`drop table if exists ${name}`);
}
