import { LINE_LIMIT_BYTES, type Line, type Mark, readLines } from '../common/lines.ts';
import { printable } from '../common/printable.ts';
import { count } from '../common/progress.ts';
import type { Source } from '../common/source.ts';
import { type Checked, readHotel } from './hotel.ts';

/** Format of a source: how its lines are joined and read. */
export interface Format {
  name: 'ndjson' | 'csv';
  /** header row of CSV, verbatim with its newline */
  header: string;
  /** position of the first hotel */
  mark: Mark;
  /** what opens a record of several lines */
  opener: string;
  /** maximum number of lines of a record: each line that opens one is followed so far */
  maxLines: number;
  /** returns the test for the last line of the record that this line begins; undefined if the line is a whole record */
  opens(text: string): ((text: string) => boolean) | undefined;
  /** returns false for joined lines that are no record */
  isRecord(text: string): boolean;
  /** Returns each record as an object, an `Error` with its fault, or undefined if it has no hotel. */
  read(texts: string[]): unknown[];
}

/** Record of the source. Neither hotel nor fault: a row that repeats the header. */
export interface ImportRecord extends Checked {
  /** its line or lines */
  at: Line;
  /** the file may end within it */
  isCut: boolean;
}

/** Reads and checks the records; yields an array for each chunk of the source. */
export async function* readRecords(source: Source, format: Format): AsyncGenerator<ImportRecord[], void> {
  const { mark } = format;
  const isCsv = format.name === 'csv';
  for await (const lines of joinLines(readLines(source.read(mark.start), mark), format)) {
    const contents = format.read(lines.flatMap(({ text }) => text ?? [])).values();
    const records: ImportRecord[] = [];
    for (const at of lines) {
      const content = at.text === undefined ? new Error(at.fault) : contents.next().value;
      if (content === undefined && !isCsv) continue;
      const checked = readHotel(content);
      const fault = checked.fault && printable(checked.fault);
      // an object of JSON that is closed is whole
      const isCut = at.isUnfinished && (fault !== undefined || (isCsv && content !== undefined));
      records.push({ ...checked, fault, at, isCut });
    }
    yield records;
  }
}

/**
 * Joins the lines of each record that spans several, of at most 1 MiB, and omits blank lines. If a record is not closed,
 * only its first line is wrong, and reading continues at the next one: an open quote takes no other hotel with it.
 */
export async function* joinLines(
  chunks: AsyncIterable<Line[]>,
  format: Pick<Format, 'opener' | 'maxLines' | 'opens' | 'isRecord'>,
): AsyncGenerator<Line[]> {
  let held: Line[] = [];
  /** Returns the records of the held lines, and keeps the last lines if their record may continue. */
  const join = (isEnd: boolean): Line[] => {
    const records: Line[] = [];
    for (let at = 0; at < held.length; at++) {
      const first = held[at]!;
      const closes = first.text === undefined ? undefined : format.opens(first.text);
      if (!closes) {
        if (first.text?.trim() !== '') records.push(first);
        continue;
      }
      const fits = (line: Line) =>
        line.text !== undefined &&
        line.end - first.start <= LINE_LIMIT_BYTES &&
        line.number - first.number < format.maxLines;
      let last = at + 1;
      while (last < held.length && fits(held[last]!) && !closes(held[last]!.text!)) last++;
      const end = held[last];
      if (!end && !isEnd) {
        held = held.slice(at);
        return records;
      }
      const lines = held.slice(at, last + 1);
      const text = end && fits(end) ? lines.map((line) => line.text).join('\n') : undefined;
      if (end && text !== undefined && format.isRecord(text)) {
        records.push({ ...first, end: end.end, isUnfinished: end.isUnfinished, lines: lines.length, text });
        at = last;
      } else {
        const others = lines.length - 1;
        const swallowed = others > 0 ? `: it would swallow ${count('line')(others)} after it` : '';
        records.push({ ...first, text: undefined, fault: `${format.opener} is not closed${swallowed}` });
      }
    }
    held = [];
    return records;
  };
  for await (const chunk of chunks) {
    held = [...held, ...chunk];
    yield join(false);
  }
  yield join(true);
}
