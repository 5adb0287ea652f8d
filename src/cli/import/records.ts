import { type ByteRange, type Line, type Mark, readLines } from '../common/lines.ts';
import { printable } from '../common/printable.ts';
import type { Source } from '../common/source.ts';
import { type Row, readRows, rowsOverLines } from './csv.ts';
import type { Format } from './format.ts';
import { type Changes, type ImportedHotel, LineFault, parseHotel, readHotel } from './hotel.ts';
import { type JoinRules, joinLines } from './join.ts';

/** Record of the source: its hotel or its fault. */
export interface ImportRecord extends ByteRange, Changes {
  line: number;
  /** number of its lines */
  lines: number;
  /** rows between the record before and this one that repeat the header */
  headers: number;
  /** the file may end within it */
  isCut: boolean;
  /** of a wrong line only the id, if that is valid */
  hotel: Partial<ImportedHotel>;
  /** undefined for a valid line */
  fault: string | undefined;
}

/** End of a source: rows after the last record that repeat the header, and N of a last line `# N hotels`. */
export interface Closing {
  headers: number;
  announced: number | undefined;
}

const CLOSING_LINE = /^\s*#\s*(\d{1,15}) hotels?\s*$/i;
/** A hotel of JSON may begin with a brace in a line of its own, and ends with one at the same indentation. */
export const OBJECTS_OVER_LINES: JoinRules = {
  opener: 'a brace',
  opens(text) {
    const [, indent] = /^(\s*)\{\s*$/.exec(text) ?? [];
    if (indent === undefined) return undefined;
    // another opening brace in its place: the first is not closed
    return (line) => line.startsWith(`${indent}}`) || line.startsWith(`${indent}{`);
  },
  isRecord: (text) => !text.trimEnd().endsWith('{'),
};

/**
 * Reads and checks the records behind a mark; yields an array for each chunk of the source. Rows that repeat the header
 * are left out.
 */
export async function* readRecords(
  source: Source,
  { layout }: Format,
  mark: Mark,
): AsyncGenerator<ImportRecord[], Closing> {
  const rules = layout ? rowsOverLines(layout) : OBJECTS_OVER_LINES;
  let headers = 0;
  // it closes the file only if no other line follows
  let last: Line | undefined;
  for await (const chunk of joinLines(readLines(source.read(mark.start), mark), rules)) {
    const lines = last ? [last, ...chunk] : chunk;
    last = CLOSING_LINE.test(lines.at(-1)?.text ?? '') ? lines.pop() : undefined;
    const rows =
      layout &&
      readRows(
        layout,
        lines.flatMap(({ text }) => text ?? []),
      ).values();
    const records: ImportRecord[] = [];
    for (const line of lines) {
      const content = line.text === undefined ? undefined : rows ? rows.next().value : elementOf(line.text);
      if (line.text === undefined || content) {
        records.push(checked(line, content, headers));
        headers = 0;
      } else if (rows) headers++;
    }
    yield records;
  }
  return { headers, announced: last && Number(CLOSING_LINE.exec(last.text!)![1]) };
}

/** Returns the object of a line of NDJSON, or of an array with one object a line: that has brackets and commas around. */
function elementOf(line: string): string {
  let text = line.trim();
  if (text.startsWith('[') || text.startsWith(',')) text = text.slice(1).trimStart();
  if (text.endsWith(']') || text.endsWith(',')) text = text.slice(0, -1).trimEnd();
  return text;
}

function checked(line: Line, content: Row | string, headers: number): ImportRecord {
  const { number, lines, start, end, isUnfinished } = line;
  const changes: Changes = { convertedUris: 0, nulls: 0 };
  let hotel: Partial<ImportedHotel> = {};
  let fault = content === undefined ? line.fault : undefined;
  try {
    if (content instanceof LineFault) throw content;
    if (typeof content === 'string') hotel = parseHotel(content, changes);
    else if (content) hotel = readHotel(content, changes);
  } catch (error) {
    if (!(error instanceof LineFault)) throw error;
    if (error.id !== undefined) hotel = { id: error.id };
    fault = printable(error.message);
  }
  // an object of JSON that is closed is whole
  const isCut = isUnfinished && (fault !== undefined || typeof content !== 'string');
  return { line: number, lines, start, end, headers, ...changes, isCut, hotel, fault };
}
