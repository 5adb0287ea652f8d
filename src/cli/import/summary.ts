import type { TransactionSql } from 'postgres';
import { count } from '../common/progress.ts';
import type { Counts } from './merge.ts';

/** Counters of staged records: the number of a record in SQL, with its `candidates` row `c`; and the sentence about them. */
const COUNTERS = {
  superseded: [
    '(i.id is not null and fault is null and c.line is null)::int',
    'line',
    'superseded by a later one with the same id',
  ],
  multiline: ['(lines > 1)::int', 'record', 'over several lines'],
  repeated_headers: ['(i.id is null and fault is null)::int', 'repeated header row', 'left out'],
  nulls: ['(fault is null)::int * nulls', 'text', 'read as null (empty, NULL, \\N)'],
  converted_uris: [
    '(fault is null)::int * converted_uris',
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

/** Sums up the staged records after `compare`. */
export async function summarize(transaction: TransactionSql, counts: Counts): Promise<Summary> {
  const sums = Object.entries(COUNTERS).map(
    ([name, [number]]) => `coalesce(sum(${number}), 0)::float8 as ${name},
      array_to_string((array_agg(i.line order by i.line) filter (where ${number} > 0))[1:3], ', ') as first_${name}`,
  );
  const [row] = await transaction.unsafe(`
    select count(*)::float8 as lines, count(fault)::float8 as rejected, ${sums.join()}
    from staged i left join candidates c on c.line = i.line`);
  const { lines, rejected, repeated_headers } = row!;
  const notes: string[] = [];
  const counters: Record<string, number> = {};
  for (const [name, [, thing, what]] of Object.entries(COUNTERS)) {
    const sum = row![name];
    counters[name] = sum;
    if (sum > 0) notes.push(`${count(thing!)(sum)} ${what}, first in line ${row![`first_${name}`]}.`);
  }
  const failed = rejected > 0;
  return { ...counts, rejected, lines: lines - repeated_headers, ...counters, failed, notes } as Summary;
}

/** Returns the summary as text. */
export function describe(summary: Summary, isDryRun = false): string {
  const { inserted, updated, unchanged, deleted, rejected, notes } = summary;
  const counts = `${inserted} inserted, ${updated} updated, ${unchanged} unchanged, ${deleted} deleted, ${rejected} rejected`;
  const beginning = isDryRun ? 'Dry run, nothing was changed. An import would be: ' : '';
  return [beginning + counts, ...notes].join('\n');
}
