import { hash } from 'node:crypto';
import type { Sql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import { copyIn, copyRow } from '../common/copy.ts';
import type { Mark } from '../common/lines.ts';
import type { Source } from '../common/source.ts';
import type { Format } from './format.ts';
import { IMPORTED_COLUMNS } from './hotel.ts';
import { type ImportRecord, readRecords } from './records.ts';

/** Version of the staging format; a release does not resume the staging of another version. */
const STAGING_VERSION = 2;
/** Bytes of a batch, which is one transaction; a crash repeats at most one batch. */
const BATCH_BYTES = 4 * 1024 * 1024;
/** Days after which an interrupted import is dropped. */
const KEPT_DAYS = 7;
const PREFIX = 'hotel_api_import_';
const UNIQUE_VIOLATION = '23505';
const UNDEFINED_TABLE = '42P01';

/** Number of staged lines of a source. */
export interface Staged {
  /** lines that are not blank */
  lines: number;
  rejected: number;
  /** rejected lines without a readable hotel id */
  withoutId: number;
}

/**
 * Staging table with the checked lines of one source, which outlives this process. Columns: line, starts_at, ends_at,
 * fault (null for a valid line), converted_uris (count) and the columns of a hotel. Its name derives from the content of
 * the source, so an interrupted import resumes behind its last line.
 */
export class Staging {
  readonly table: string;
  /** true: the table holds lines that the next import of this content need not read */
  keepsLines = false;
  readonly #sql: Sql;
  readonly #source: Source;
  readonly #format: Format;

  private constructor(sql: Sql, table: string, source: Source, format: Format) {
    this.#sql = sql;
    this.table = table;
    this.#source = source;
    this.#format = format;
  }

  /** Creates the table, or opens the one of an interrupted import of the same content. */
  static async open(sql: Sql, source: Source, format: Format): Promise<Staging> {
    const about = [STAGING_VERSION, format.name, IMPORTED_COLUMNS.join(), await source.identity()].join('|');
    const table = `${PREFIX}${hash('sha256', about, 'hex').slice(0, 24)}`;
    await dropForgotten(sql);
    await sql.begin(async (transaction) => {
      // of concurrent imports only one creates the table
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

  /** Returns where reading must continue; undefined if no line is staged. Waits for a batch that is being written. */
  async mark(): Promise<Mark | undefined> {
    const mark = await this.#sql.begin(async (transaction) => {
      // usually of a process that was killed
      await transaction.unsafe(`lock table ${this.table} in share row exclusive mode`);
      const [last] = await transaction.unsafe<{ number: number; start: number }[]>(
        `select line::float8 as number, ends_at + 1 as start from ${this.table} order by line desc limit 1`,
      );
      return last;
    });
    this.keepsLines = mark !== undefined;
    return mark;
  }

  /** Reads the missing lines, from `mark` on. `onRead` receives every chunk before it is staged. */
  async fill(mark: Mark | undefined, onRead: (records: ImportRecord[]) => void): Promise<void> {
    const records = readRecords(this.#source, this.#format, mark ?? this.#format.mark);
    let isDone = false;
    async function* batch(): AsyncGenerator<string> {
      for (let bytes = 0; bytes < BATCH_BYTES; ) {
        const { value, done } = await records.next();
        isDone = done === true;
        if (isDone) return;
        onRead(value);
        let rows = '';
        for (const { line, start, end, fault, convertedUris, hotel } of value as ImportRecord[]) {
          const fields = IMPORTED_COLUMNS.map((column) => hotel[column]);
          rows += copyRow([line, start, end, fault, convertedUris, ...fields]);
        }
        bytes += rows.length;
        if (rows !== '') yield rows;
      }
    }
    try {
      while (!isDone) {
        await this.#sql.begin(async (transaction) => {
          await transaction`set local statement_timeout = 0`;
          // a crash of the server may lose the last batches, which are then read again
          await transaction`set local synchronous_commit = off`;
          await transaction`set local client_connection_check_interval = '1s'`;
          await copyIn(transaction, `copy ${this.table} from stdin`, batch);
        });
        this.keepsLines = true;
      }
    } catch (error) {
      // a source that is not readable to its end must be replaced, so its lines are useless
      if (error instanceof Failure) await this.drop();
      throw error;
    } finally {
      await records.return(undefined);
    }
  }

  /** Yields the staged faults in batches. */
  async *faults(): AsyncGenerator<{ line: number; fault: string }[]> {
    const rows = this.#sql.unsafe<{ line: number; fault: string }[]>(
      `select line::float8 as line, fault from ${this.table} where fault is not null order by line`,
    );
    yield* rows.cursor(1_000);
  }

  async count(): Promise<Staged> {
    const [counts] = await this.#sql.unsafe<[Staged]>(`
      select count(*)::float8 as lines, count(fault)::float8 as rejected,
        (count(*) - count(id))::float8 as "withoutId" from ${this.table}`);
    return counts;
  }

  async drop(): Promise<void> {
    await this.#sql.unsafe(`drop table if exists ${this.table}`);
    this.keepsLines = false;
  }
}

/** Returns true for an error that shows that another process has staged or merged the same lines meanwhile. */
export function isTakenOver(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  return (code === UNIQUE_VIOLATION || code === UNDEFINED_TABLE) && (message?.includes(PREFIX) ?? false);
}

/** Drops the tables of interrupted imports that were not resumed. */
async function dropForgotten(sql: Sql): Promise<void> {
  const forgotten = await sql<{ name: string }[]>`
    select oid::regclass::text as name from pg_class
    where relkind = 'r' and relname like 'hotel\\_api\\_import\\_%' and pg_table_is_visible(oid)
      and substring(obj_description(oid, 'pg_class') from '^import, (.*)$')::timestamptz
        < now() - make_interval(days => ${KEPT_DAYS})`;
  for (const { name } of forgotten) await sql.unsafe(`drop table if exists ${name}`);
}
