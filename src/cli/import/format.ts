import { Failure } from '../../lib/failure.ts';
import { BEGINNING, type Line, readLines } from '../common/lines.ts';
import type { Source } from '../common/source.ts';
import { csvBelow } from './csv.ts';
import { IMPORTED_COLUMNS } from './hotel.ts';
import { NDJSON } from './json.ts';
import type { Format } from './records.ts';
import { rejectWrongKind } from './wrong-kind.ts';

const FIELDS = new Set<string>([...IMPORTED_COLUMNS, 'certified']);

/**
 * Detects the format from the first line that is not blank: a brace or bracket begins NDJSON, a header row CSV. Otherwise
 * the name of the file decides, with NDJSON as default. Throws a `Failure` for another kind of file, and for CSV with a
 * missing or wrong header row.
 */
export async function detectFormat(source: Source): Promise<Format> {
  const line = await firstLine(source);
  await rejectWrongKind(source, line);
  const { text, number } = line ?? {};
  if (text === undefined || /^\s*[{[]/.test(text)) return NDJSON;
  const csv = csvBelow({ ...line!, text });
  const requirement = `${source.name}: line ${number} is no header row. CSV begins with field names of the API, at least id and name, separated by commas, semicolons or tabs.`;
  if (!csv && /\.(csv|tsv)(\.gz)?$/i.test(source.name)) throw new Failure(requirement);
  if (!csv) return NDJSON;
  const { columns } = csv;
  const faults = [
    ...columns.filter((name) => !FIELDS.has(name)).map((name) => `unknown field ${JSON.stringify(name)}`),
    ...columns
      .filter((name, at) => columns.indexOf(name) < at)
      .map((name) => `${JSON.stringify(name)} is repeated`),
    ...(columns.includes('name') ? [] : ['"name" is missing']),
  ];
  if (faults.length === 0) return csv;
  throw new Failure(
    `${source.name}: the header row in line ${number} is wrong: ${faults.join('; ')}. Its fields are those of the API: ${[...FIELDS].join(', ')}.`,
  );
}

async function firstLine(source: Source): Promise<Line | undefined> {
  for await (const lines of readLines(source.read(0), BEGINNING)) {
    const first = lines.find(({ text }) => text?.trim() !== '');
    if (first) return first;
  }
  return undefined;
}
