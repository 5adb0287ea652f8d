import type { TransactionSql } from 'postgres';
import { copyIn, copyRow } from '../common/copy.ts';
import type { Source } from '../common/source.ts';
import { IMPORTED_COLUMNS } from './hotel.ts';
import { type Format, type ImportRecord, readRecords } from './records.ts';

/** Columns of a staged record before those of a hotel: a value of the type, and that of a record. */
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
 * Reads the source into the temporary table `staged`: its checked records, of which a valid one has a null `fault`. Calls
 * `onRead` for every chunk.
 */
export async function stage(
  transaction: TransactionSql,
  source: Source,
  format: Format,
  onRead: () => void,
): Promise<void> {
  const columns = Object.entries(COLUMNS).map(([name, [type]]) => `${type} as ${name}`);
  await transaction.unsafe(`
    create temporary table staged on commit drop as
    select ${[...columns, ...IMPORTED_COLUMNS].join(', ')} from hotels with no data`);
  async function* rows(): AsyncGenerator<string> {
    for await (const records of readRecords(source, format)) {
      const lines = records.map((record) => {
        const facts = Object.values(COLUMNS).map(([, of]) => of(record));
        return copyRow([...facts, ...IMPORTED_COLUMNS.map((column) => record.hotel[column])]);
      });
      onRead();
      if (lines.length > 0) yield lines.join('');
    }
  }
  await copyIn(transaction, 'copy staged from stdin', rows);
  await transaction`create unique index on staged (line)`;
  await transaction`analyze staged`;
}
