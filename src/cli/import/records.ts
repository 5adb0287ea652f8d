import { Failure } from '../../lib/failure.ts';
import { type Line, readLines } from '../common/lines.ts';
import { printable } from '../common/printable.ts';
import type { Source } from '../common/source.ts';
import { type Header, joinRows, parseRows, readHeader } from './csv.ts';
import { type Checked, IMPORTED_COLUMNS, readHotel } from './hotel.ts';

const FIELDS = new Set<string>([...IMPORTED_COLUMNS, 'certified']);
/** Kinds of files by their first line, of which each byte is a character, with a remedy. */
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
  [/^[^[{,;\t]*\|/, 'separated by pipes', 'Ask for commas, semicolons or tabs.'],
  [/^\s*\[/, 'a JSON array', 'Write one hotel a line: jq -c ".[]" FILE | hotel-api import -'],
  [/^\s*\{\s*$/, 'JSON over several lines', 'Write one hotel a line: jq -c . FILE | hotel-api import -'],
];

/** Record of the source: a line of NDJSON or a row of CSV. */
interface ImportRecord extends Checked {
  at: Line;
}

/**
 * Returns the header row of CSV, or undefined for NDJSON. The first line that is not blank decides: a brace begins NDJSON, a header
 * row CSV. Otherwise the name of the file decides, with NDJSON as default. Throws a `Failure` for another kind of file, and for
 * CSV with a missing or wrong header row.
 */
export async function detectHeader(source: Source): Promise<Header | undefined> {
  const { bytes, text, number = 0 } = (await firstLine(source)) ?? {};
  const beginning = bytes?.toString('latin1').replace(/^\xef\xbb\xbf/, '') ?? '';
  const [, kind, remedy] = WRONG_KINDS.find(([pattern]) => pattern.test(beginning)) ?? [];
  if (kind)
    throw new Failure(`${source.name} is ${kind}, not NDJSON or CSV in UTF-8, gzipped or not. ${remedy}`, 2);
  if (text === undefined || /^\s*\{/.test(text)) return undefined;
  const header = readHeader({ number, text });
  if (!header && /\.(csv|tsv)(\.gz)?$/i.test(source.name))
    throw new Failure(
      `${source.name}: line ${number} is no header row. CSV begins with field names of the API, at least id and name, separated by commas, semicolons or tabs.`,
    );
  const { columns = [] } = header ?? {};
  const quoted = (name: string) => JSON.stringify(name);
  const faults = [
    ...columns.filter((name) => !FIELDS.has(name)).map((name) => `unknown field ${quoted(name)}`),
    ...columns.filter((name, i) => columns.indexOf(name) < i).map((name) => `${quoted(name)} is repeated`),
    ...(header && !columns.includes('name') ? ['"name" is missing'] : []),
  ];
  if (faults.length === 0) return header;
  throw new Failure(
    `${source.name}: the header row in line ${number} is wrong: ${faults.join('; ')}. Its fields are those of the API: ${[...FIELDS].join(', ')}.`,
  );
}

async function firstLine(source: Source): Promise<Line | undefined> {
  for await (const lines of readLines(source.read())) {
    const first = lines.find(({ text }) => text?.trim() !== '');
    if (first) return first;
  }
  return undefined;
}

/** Reads the lines of NDJSON or the rows of CSV; yields an array for each chunk of the source. */
export function readRows(source: Source, header: Header | undefined): AsyncGenerator<Line[]> {
  const lines = readLines(source.read());
  return header ? joinRows(lines, header) : lines;
}

/** Reads and checks the records; yields an array for each chunk of the source. Omits blank lines and repeated header rows. */
export async function* readRecords(source: Source, header?: Header): AsyncGenerator<ImportRecord[], void> {
  for await (const chunk of readRows(source, header)) {
    const rows = chunk.filter(({ text }) => text?.trim() !== '');
    const texts = rows.flatMap(({ text }) => text ?? []);
    const contents = (header ? parseRows(texts, header) : texts.map(parseHotel)).values();
    yield rows.flatMap((at) => {
      const content = at.text === undefined ? new Error(at.fault) : contents.next().value;
      if (content === undefined) return [];
      const checked = readHotel(content);
      return { ...checked, fault: checked.fault && printable(checked.fault), at };
    });
  }
}

/** Parses a line of NDJSON; an `Error` is its fault. */
export function parseHotel(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    return new Error(`not valid JSON: ${(error as Error).message}`);
  }
}
