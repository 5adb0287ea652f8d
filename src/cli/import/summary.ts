import type { TransactionSql } from 'postgres';
import { count } from '../common/progress.ts';
import type { Counts } from './merge.ts';

/** Counters of staged records: the number of a record in SQL, with its `candidates` row `c`; and the sentence about them. */
const COUNTERS = {
  superseded: [
    '(fault is null and c.line is null)::int',
    'line',
    'superseded by a later one with the same id',
  ],
  multiline: ['(lines > 1)::int', 'record', 'over several lines'],
  repeated_headers: ['headers', 'repeated header row', 'left out'],
  nulls: ['case when fault is null then nulls else 0 end', 'text', 'read as null (empty, NULL, \\N)'],
  converted_uris: [
    'case when fault is null then converted_uris else 0 end',
    'IRI',
    'converted to URIs (percent-encoding, punycode)',
  ],
};

/** Result of an import, as `--json` prints it. */
export type Summary = Counts &
  Record<'rejected' | 'lines' | keyof typeof COUNTERS, number> & {
    /** true: the exit code is 1 */
    failed: boolean;
    /** sentences about all of these, for a person */
    notes: string[];
  };

/** Sums up the staged records after `compare`; `headers` rows that repeat the header follow the last one. */
export async function summarize(
  transaction: TransactionSql,
  table: string,
  counts: Counts,
  headers: number,
): Promise<Summary> {
  const sums = Object.entries(COUNTERS).map(
    ([name, [number]]) => `coalesce(sum(${number}), 0)::float8 as ${name},
      array_to_string((array_agg(i.line order by i.line) filter (where ${number} > 0))[1:3], ', ') as first_${name}`,
  );
  const [row] = await transaction.unsafe(`
    select count(*)::float8 as lines, count(fault)::float8 as rejected, ${sums.join()}
    from ${table} i left join candidates c on c.line = i.line`);
  row!.repeated_headers += headers;
  const names = Object.keys(COUNTERS) as (keyof typeof COUNTERS)[];
  const notes = names.map((name) => {
    const [first, [, thing, what]] = [row![`first_${name}`], COUNTERS[name]];
    return row![name] > 0 && `${count(thing!)(row![name])} ${what}${first && `, first in line ${first}`}.`;
  });
  return {
    ...counts,
    rejected: row!.rejected,
    lines: row!.lines,
    ...(Object.fromEntries(names.map((name) => [name, row![name]])) as Record<keyof typeof COUNTERS, number>),
    failed: row!.rejected > 0,
    notes: notes.filter((note) => note !== false),
  };
}

/** Returns the summary as text. */
export function describe(summary: Summary, isDryRun = false): string {
  const { inserted, updated, unchanged, deleted, rejected, notes } = summary;
  const counts = `${inserted} inserted, ${updated} updated, ${unchanged} unchanged, ${deleted} deleted, ${rejected} rejected`;
  return [isDryRun ? `Dry run, nothing was changed. An import would be: ${counts}` : counts, ...notes].join(
    '\n',
  );
}
