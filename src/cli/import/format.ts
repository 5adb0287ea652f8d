import { Failure } from '../../lib/failure.ts';
import { BEGINNING, LINE_LIMIT_BYTES, type Line, readLines } from '../common/lines.ts';
import type { Source } from '../common/source.ts';
import { csvBelow } from './csv.ts';
import { IMPORTED_COLUMNS } from './hotel.ts';
import { NDJSON } from './json.ts';
import type { Format } from './records.ts';

const FIELDS = new Set<string>([...IMPORTED_COLUMNS, 'certified']);
/** Kinds of files by their beginning, of which each byte is a character, with a remedy. */
const WRONG_KINDS: [beginning: RegExp, kind: string, remedy: string][] = [
  [/^\x28\xb5\x2f\xfd/, 'compressed with zstd', 'Unpack it: zstd -dc FILE | hotel-api import -'],
  [/^PK[\x03\x05]/, 'a zip archive or an Excel workbook', 'Unpack it, or save the sheet as CSV UTF-8.'],
  [/^(\xff\xfe|\xfe\xff|[^\0]\0[^\0]\0|\0[^\0]\0[^\0])/, 'UTF-16', 'Convert it: iconv -f UTF-16 -t UTF-8'],
  [
    /^(BZh|\xfd7zXZ|7z\xbc\xaf|\x1f\x8b)/,
    'packed by another program than gzip, or twice',
    'Unpack it first.',
  ],
  [/^\s*</, 'HTML or XML', 'It may be an error page: look at it.'],
  [/^[^[{,;\t\n]*\|/, 'separated by pipes', 'Ask for commas, semicolons or tabs.'],
  [
    /^\s*\[[^\n]*(\][^\S\n]*\n|$)/,
    'a JSON array in one line',
    'Write one hotel a line: jq -c ".[]" FILE | hotel-api import -',
  ],
];

/**
 * Detects the format from the first line that is not blank: a brace or bracket begins NDJSON, a header row CSV. Otherwise
 * the name of the file decides, with NDJSON as default. Throws a `Failure` for another kind of file, and for CSV with a
 * missing or wrong header row.
 */
export async function detectFormat(source: Source): Promise<Format> {
  const beginning = (await source.slice(0, LINE_LIMIT_BYTES)).toString('latin1').replace(/^\xef\xbb\xbf/, '');
  const [, kind, remedy] = WRONG_KINDS.find(([pattern]) => pattern.test(beginning)) ?? [];
  if (kind)
    throw new Failure(`${source.name} is ${kind}, not NDJSON or CSV in UTF-8, gzipped or not. ${remedy}`, 2);
  const line = await firstLine(source);
  const { text, number } = line ?? {};
  if (text === undefined || /^\s*[{[]/.test(text)) return NDJSON;
  const csv = csvBelow({ ...line!, text });
  const requirement = `${source.name}: line ${number} is no header row. CSV begins with field names of the API, at least id and name, separated by commas, semicolons or tabs.`;
  if (!csv && /\.(csv|tsv)(\.gz)?$/i.test(source.name)) throw new Failure(requirement);
  if (!csv) return NDJSON;
  const { columns } = csv;
  const seen = new Set<string>();
  const isRepeated = (name: string) => {
    const wasSeen = seen.has(name);
    seen.add(name);
    return wasSeen;
  };
  const faults = [
    ...columns.filter((name) => !FIELDS.has(name)).map((name) => `unknown field ${JSON.stringify(name)}`),
    ...columns.filter(isRepeated).map((name) => `${JSON.stringify(name)} is repeated`),
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
