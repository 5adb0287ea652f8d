import { hash } from 'node:crypto';
import type { Sql } from 'postgres';
import { copyIn, copyRow } from '../common/copy.ts';
import type { Mark } from '../common/lines.ts';
import type { Source } from '../common/source.ts';
import { IMPORTED_COLUMNS } from './hotel.ts';
import { type Format, type ImportRecord, readRecords } from './records.ts';
import type { InTransaction } from './turn.ts';

/** Version of the staging format; a release does not resume the staging of another version. */
const STAGING_VERSION = 5;
/** Bytes of a batch, which is one transaction; a crash repeats at most one batch. */
const BATCH_BYTES = 4 * 1024 * 1024;
/** Days after which an interrupted import is dropped. */
const KEPT_DAYS = 7;
const PREFIX = 'hotel_api_import_';

/** Columns of a staging table before those of a hotel: a value of the type, and that of a record. */
const COLUMNS: Record<string, [type: string, of: (record: ImportRecord) => unknown]> = {
  line: ['0::bigint', ({ at }) => at.number],
  lines: ['0', ({ at }) => at.lines],
  starts_at: ['0::float8', ({ at }) => at.start],
  ends_at: ['0::float8', ({ at }) => at.end],
  fault: ['null::text', ({ fault }) => fault],
  converted_uris: ['0', ({ convertedUris }) => convertedUris],
  nulls: ['0', ({ nulls }) => nulls],
  is_cut: ['false', ({ isCut }) => isCut],
};

/**
 * Staging table with the checked records of one source, which outlives this process. Columns: those of a record, of which
 * a valid one has a null `fault`, and of a hotel. Its name derives from the content of the source, so an interrupted import
 * resumes behind its last record.
 */
export interface Staging {
  table: string;
  /** the last line that an interrupted import of the same content has staged; undefined if there is none */
  mark: Mark | undefined;
  /** true: the table holds lines that the next import of this content need not read */
  keepsLines: boolean;
}

/** Creates the table, or opens the one of an interrupted import of the same content. */
export async function openStaging(sql: Sql, source: Source, format: Format): Promise<Staging> {
  const about = [STAGING_VERSION, format.name, IMPORTED_COLUMNS.join(), await source.identity()].join('|');
  const table = `${PREFIX}${hash('sha256', about, 'hex').slice(0, 24)}`;
  await dropForgotten(sql);
  const columns = Object.entries(COLUMNS).map(([name, [type]]) => `${type} as ${name}`);
  await sql.unsafe(`
    create table if not exists ${table} as
    select ${[...columns, ...IMPORTED_COLUMNS].join(', ')} from hotels with no data`);
  await sql.unsafe(`create unique index if not exists ${table}_lines on ${table} (line)`);
  await sql.unsafe(`comment on table ${table} is 'import, ${new Date().toISOString()}'`);
  const [mark] = await sql.unsafe<Mark[]>(
    `select (line + lines - 1)::float8 as number, ends_at + 1 as start from ${table} order by line desc limit 1`,
  );
  return { table, mark, keepsLines: mark !== undefined };
}

/** Reads the missing records in batches. Calls `onRead` for every chunk. */
export async function fillStaging(
  staging: Staging,
  inTransaction: InTransaction,
  source: Source,
  format: Format,
  onRead: () => void,
): Promise<void> {
  const chunks = readRecords(source, format, staging.mark ?? format.mark);
  let isRead = false;
  async function* batch(): AsyncGenerator<string> {
    for (let bytes = 0; bytes < BATCH_BYTES; ) {
      const { value: records, done } = await chunks.next();
      if (done) {
        isRead = true;
        return;
      }
      let rows = '';
      for (const record of records) {
        const facts = Object.values(COLUMNS).map(([, of]) => of(record));
        rows += copyRow([...facts, ...IMPORTED_COLUMNS.map((column) => record.hotel[column])]);
      }
      onRead();
      bytes += rows.length;
      if (rows !== '') yield rows;
    }
  }
  try {
    while (!isRead) {
      await inTransaction(async (transaction) => {
        // a crash of the server may lose the last batches, which are then read again
        await transaction`set local synchronous_commit = off`;
        await copyIn(transaction, `copy ${staging.table} from stdin`, batch);
      });
      staging.keepsLines = true;
    }
  } finally {
    await chunks.return();
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
