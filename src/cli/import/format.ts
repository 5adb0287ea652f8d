import { Failure } from '../../lib/failure.ts';
import { BEGINNING, type Line, type Mark, readLines } from '../common/lines.ts';
import type { Source } from '../common/source.ts';
import { type CsvLayout, readHeader } from './csv.ts';
import { IMPORTED_COLUMNS } from './hotel.ts';
import { rejectWrongKind } from './wrong-kind.ts';

/** Format of a source. */
export interface Format {
  name: 'ndjson' | 'csv';
  /** layout of CSV */
  layout: CsvLayout | undefined;
  /** header row of CSV, verbatim with its newline */
  header: string;
  /** position of the first hotel */
  mark: Mark;
}

const NDJSON: Format = { name: 'ndjson', layout: undefined, header: '', mark: BEGINNING };
const FIELDS = new Set<string>([...IMPORTED_COLUMNS, 'certified']);

/**
 * Detects the format from the first line that is not blank: a brace or bracket begins NDJSON, a header row CSV. Otherwise
 * the name of the file decides, with NDJSON as default. Throws a `Failure` for another kind of file, and for CSV with a
 * missing or wrong header row.
 */
export async function detectFormat(source: Source): Promise<Format> {
  const line = await firstLine(source);
  await rejectWrongKind(source, line);
  if (line?.text === undefined || /^\s*[{[]/.test(line.text)) return NDJSON;
  const layout = readHeader(line.text);
  if (layout) {
    check(layout, source.name, line.number);
    return {
      name: 'csv',
      layout,
      header: `${line.text}\n`,
      mark: { number: line.number, start: line.end + 1 },
    };
  }
  if (!/\.(csv|tsv)(\.gz)?$/i.test(source.name)) return NDJSON;
  throw new Failure(
    `${source.name}: line ${line.number} is no header row. CSV begins with field names of the API, ` +
      'at least id and name, separated by commas, semicolons or tabs.',
  );
}

async function firstLine(source: Source): Promise<Line | undefined> {
  for await (const lines of readLines(source.read(0), BEGINNING)) {
    const first = lines.find(({ text }) => text?.trim() !== '');
    if (first) return first;
  }
  return undefined;
}

function check({ columns }: CsvLayout, name: string, line: number): void {
  const faults = [
    ...columns
      .filter((column) => !FIELDS.has(column))
      .map((column) => `unknown field ${JSON.stringify(column)}`),
    ...columns
      .filter((column, at) => columns.indexOf(column) < at)
      .map((column) => `${JSON.stringify(column)} is repeated`),
    ...(columns.includes('name') ? [] : ['"name" is missing']),
  ];
  if (faults.length > 0) {
    throw new Failure(
      `${name}: the header row in line ${line} is wrong: ${faults.join('; ')}. Its fields are those of the API: ${[...FIELDS].join(', ')}.`,
    );
  }
}
