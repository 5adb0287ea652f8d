import { hash } from 'node:crypto';
import type { Sql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import { copyIn, copyRow } from '../common/copy.ts';
import type { ByteRange, Mark } from '../common/lines.ts';
import type { Source } from '../common/source.ts';
import type { Format } from './format.ts';
import { IMPORTED_COLUMNS } from './hotel.ts';
import { type Closing, type ImportRecord, readRecords } from './records.ts';

/** Version of the staging format; a release does not resume the staging of another version. */
const STAGING_VERSION = 3;
/** Bytes of a batch, which is one transaction; a crash repeats at most one batch. */
const BATCH_BYTES = 4 * 1024 * 1024;
/** Days after which an interrupted import is dropped. */
const KEPT_DAYS = 7;
const PREFIX = 'hotel_api_import_';

/** Columns of a staging table before those of a hotel, each with a value of its type. */
const COLUMNS = {
  line: '0::bigint',
  lines: '0',
  starts_at: '0::float8',
  ends_at: '0::float8',
  fault: 'null::text',
  headers: '0',
  converted_uris: '0',
  nulls: '0',
  is_cut: 'false',
};

/**
 * Staging table with the checked records of one source, which outlives this process. Columns: those of an `ImportRecord`,
 * of which a valid one has a null `fault`, and of a hotel. Its name derives from the content of the source, so an
 * interrupted import resumes behind its last record.
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
    const columns = Object.entries(COLUMNS).map(([name, value]) => `${value} as ${name}`);
    await sql.unsafe(`
      create table if not exists ${table} as
      select ${[...columns, ...IMPORTED_COLUMNS].join(', ')} from hotels with no data`);
    await sql.unsafe(`create unique index if not exists ${table}_lines on ${table} (line)`);
    await sql.unsafe(`comment on table ${table} is 'import, ${new Date().toISOString()}'`);
    return new Staging(sql, table, source, format);
  }

  /** Returns where reading must continue; undefined if no record is staged. Waits for a batch that is being written. */
  async mark(): Promise<Mark | undefined> {
    const mark = await this.#sql.begin(async (transaction) => {
      // by a process that was killed
      await transaction.unsafe(`lock table ${this.table} in share row exclusive mode`);
      const [last] = await transaction.unsafe<Mark[]>(
        `select (line + lines - 1)::float8 as number, ends_at + 1 as start from ${this.table} order by line desc limit 1`,
      );
      return last;
    });
    this.keepsLines = mark !== undefined;
    return mark;
  }

  /** Reads the missing records, from `mark` on. `onRead` receives every chunk before it is staged. */
  async fill(mark: Mark | undefined, onRead: (records: ImportRecord[]) => void): Promise<Closing> {
    const records = readRecords(this.#source, this.#format, mark ?? this.#format.mark);
    let closing: Closing | undefined;
    async function* batch(): AsyncGenerator<string> {
      for (let bytes = 0; bytes < BATCH_BYTES; ) {
        const { value, done } = await records.next();
        if (done) {
          closing = value;
          return;
        }
        onRead(value);
        let rows = '';
        for (const record of value) {
          const { line, lines, start, end, fault, headers, convertedUris, nulls, isCut, hotel } = record;
          const fields = IMPORTED_COLUMNS.map((column) => hotel[column]);
          rows += copyRow([line, lines, start, end, fault, headers, convertedUris, nulls, isCut, ...fields]);
        }
        bytes += rows.length;
        if (rows !== '') yield rows;
      }
    }
    try {
      while (!closing) {
        await this.#sql.begin(async (transaction) => {
          await transaction`set local statement_timeout = 0`;
          // a crash of the server may lose the last batches, which are then read again
          await transaction`set local synchronous_commit = off`;
          await transaction`set local client_connection_check_interval = '1s'`;
          await copyIn(transaction, `copy ${this.table} from stdin`, batch);
        });
        this.keepsLines = true;
      }
      return closing;
    } catch (error) {
      // a source that is not readable to its end must be replaced, so its lines are useless
      if (error instanceof Failure) await this.drop();
      throw error;
    } finally {
      await records.return(closing!);
    }
  }

  /** Yields the staged faults in batches. */
  async *faults(): AsyncGenerator<{ line: number; fault: string }[]> {
    const rows = this.#sql.unsafe<{ line: number; fault: string }[]>(
      `select line::float8 as line, fault from ${this.table} where fault is not null order by line`,
    );
    yield* rows.cursor(1_000);
  }

  async count(): Promise<number> {
    const [{ lines }] = await this.#sql.unsafe<[{ lines: number }]>(
      `select count(*)::float8 as lines from ${this.table}`,
    );
    return lines;
  }

  /** Returns the record within which the file may end. */
  async cut(): Promise<(ByteRange & { line: number }) | undefined> {
    const [cut] = await this.#sql.unsafe<(ByteRange & { line: number })[]>(
      `select line::float8 as line, starts_at as start, ends_at as "end" from ${this.table} where is_cut`,
    );
    return cut;
  }

  async drop(): Promise<void> {
    await this.#sql.unsafe(`drop table if exists ${this.table}`);
    this.keepsLines = false;
  }
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
