import { BEGINNING, type Line, type Mark, readLines } from '../common/lines.ts';
import { printable } from '../common/printable.ts';
import type { Source } from '../common/source.ts';
import { type Checked, readHotel } from './hotel.ts';

/** Format of a source: how its lines are joined and read. */
export interface Format {
  name: 'ndjson' | 'csv';
  /** header row of CSV, verbatim with its newline */
  header: string;
  /** position of the first hotel */
  mark: Mark;
  /** joins the lines of records that span several */
  join(chunks: AsyncIterable<Line[]>): AsyncIterable<Line[]>;
  /** returns each record as an object, or an `Error` with its fault */
  read(texts: string[]): unknown[];
}

export const NDJSON: Format = {
  name: 'ndjson',
  header: '',
  mark: BEGINNING,
  join: (chunks) => chunks,
  read: (texts) => texts.map(readJson),
};

/** Record of the source. */
export interface ImportRecord extends Checked {
  /** its line or lines */
  at: Line;
}

/** Reads and checks the records; yields an array for each chunk of the source. */
export async function* readRecords(source: Source, format: Format): AsyncGenerator<ImportRecord[], void> {
  const { mark } = format;
  for await (const all of format.join(readLines(source.read(mark.start), mark))) {
    const lines = all.filter(({ text }) => text?.trim() !== '');
    const contents = format.read(lines.flatMap(({ text }) => text ?? [])).values();
    yield lines.map((at) => {
      const content = at.text === undefined ? new Error(at.fault) : contents.next().value;
      const checked = readHotel(content);
      return { ...checked, fault: checked.fault && printable(checked.fault), at };
    });
  }
}

function readJson(text: string): unknown {
  try {
    return /"registry_id"\s*:\s*-?\d{16}/.test(text) ? JSON.parse(text, keepDigits) : JSON.parse(text);
  } catch (error) {
    return new Error(`not valid JSON: ${(error as Error).message}`);
  }
}

/** Leaves large registry ids as text, so that one beyond the bounds is rejected instead of rounded. */
function keepDigits(this: unknown, name: string, value: unknown, context?: { source?: string }): unknown {
  return name === 'registry_id' && typeof value === 'number' && !Number.isSafeInteger(value)
    ? context?.source
    : value;
}
