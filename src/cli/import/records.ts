import { Failure } from '../../lib/failure.ts';
import { printable } from '../common/print.ts';
import type { Line, Source } from '../common/source.ts';
import { type Header, joinRows, parseRows, readHeader } from './csv.ts';
import { type Checked, IMPORTED_COLUMNS, readHotel } from './hotel.ts';

const FIELDS = new Set<string>([...IMPORTED_COLUMNS, 'certified']);
/** First lines of other files: markup, JSON over several lines, cells between pipes; packed or in UTF-16, by control characters. */
const OTHER_FILE = /^\s*([<[]|\{\s*$)|^[^{,;\t]*\||[\0-\x08\x0e-\x1f]/;

/** Record of the source: a line of NDJSON or a row of CSV. */
interface ImportRecord extends Checked {
  line: number;
}

/**
 * Returns the header row of CSV, or undefined for NDJSON. The first line that is not blank decides: a brace begins NDJSON, a header
 * row CSV. Throws a `Failure` for a file that is neither, and for a wrong header row.
 */
export async function detectHeader(source: Source): Promise<Header | undefined> {
  const {
    bytes,
    number = 0,
    text = bytes?.toString('latin1') ?? '',
    fault,
  } = (await firstLine(source)) ?? {};
  if (/^\s*\{\s*[^\s\0]/.test(text)) return undefined;
  const header = readHeader(text);
  if (!header && (fault || OTHER_FILE.test(text) || /\.[ct]sv(\.gz)?$/i.test(source.name)))
    throw new Failure(
      `${source.name} is neither NDJSON nor CSV in UTF-8, gzipped or not: line ${number} is no JSON object and no header row with at least id and name. Unpack or convert it; jq -c ".[]" FILE writes one hotel of an array a line.`,
      2,
    );
  if (!header) return undefined;
  const { columns } = header;
  const quoted = (name: string) => JSON.stringify(name);
  const faults = [
    ...columns.filter((name) => !FIELDS.has(name)).map((name) => `unknown field ${quoted(name)}`),
    ...columns.filter((name, i) => columns.indexOf(name) < i).map((name) => `${quoted(name)} is repeated`),
    ...(columns.includes('name') ? [] : ['"name" is missing']),
  ];
  if (faults.length === 0) return header;
  throw new Failure(
    `${source.name}: the header row in line ${number} is wrong: ${faults.join('; ')}. Its fields are those of the API: ${[...FIELDS].join(', ')}.`,
  );
}

async function firstLine(source: Source): Promise<Line | undefined> {
  for await (const lines of source.lines()) {
    const first = lines.find(({ text }) => text?.trim() !== '');
    if (first) return first;
  }
  return undefined;
}

/** Reads the lines of NDJSON or the rows of CSV; yields an array for each chunk of the source. */
export function readRows(source: Source, header: Header | undefined): AsyncGenerator<Line[]> {
  const lines = source.lines();
  return header ? joinRows(lines, header.delimiter) : lines;
}

/** Reads and checks the records; yields an array for each chunk of the source. Omits blank lines and header rows. */
export async function* readRecords(source: Source, header?: Header): AsyncGenerator<ImportRecord[], void> {
  for await (const chunk of readRows(source, header)) {
    const rows = chunk.filter(({ text }) => text?.trim() !== '');
    const texts = rows.flatMap(({ text }) => text ?? []);
    const contents = (header ? parseRows(texts, header) : texts.map(parseHotel)).values();
    yield rows.flatMap(({ number, text, fault }) => {
      const content = text === undefined ? new Error(fault) : contents.next().value;
      if (content === undefined) return [];
      const checked = readHotel(content);
      return { ...checked, fault: checked.fault && printable(checked.fault), line: number };
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
