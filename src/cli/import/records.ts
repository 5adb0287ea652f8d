import { printable } from '../printable.ts';
import { readRows } from './csv.ts';
import type { Format } from './format.ts';
import { type ImportedHotel, LineFault, parseHotel, readHotel } from './hotel.ts';
import { type Line, type Mark, readLines, type Stretch } from './lines.ts';
import type { Source } from './source.ts';

/** A line of the source, read: its hotel, or what is wrong with it. */
export interface Read extends Stretch {
  line: number;
  /** of a wrong line the id alone, where it told that */
  hotel: Partial<ImportedHotel>;
  /** undefined for a line that is right */
  fault: string | undefined;
}

/** Reads and checks the lines behind a mark, an array for each piece of the source. */
export async function* readRecords(source: Source, format: Format, mark: Mark): AsyncGenerator<Read[]> {
  const { layout } = format;
  for await (const lines of readLines(source.read(mark.start), mark, { quoted: layout !== undefined })) {
    if (!layout) {
      yield lines.map((line) => judged(line, (text) => parseHotel(text)));
      continue;
    }
    const rows = readRows(
      layout,
      lines.flatMap(({ text }) => (text === undefined ? [] : [text])),
    );
    let next = 0;
    yield lines.map((line) =>
      judged(line, () => {
        const row = rows[next++];
        if (row instanceof LineFault) throw row;
        return readHotel(row);
      }),
    );
  }
}

function judged(
  { number: line, start, end, text, fault }: Line,
  read: (text: string) => ImportedHotel,
): Read {
  if (text === undefined) return { line, start, end, hotel: {}, fault };
  try {
    return { line, start, end, hotel: read(text), fault: undefined };
  } catch (error) {
    if (!(error instanceof LineFault)) throw error;
    return {
      line,
      start,
      end,
      hotel: error.id === undefined ? {} : { id: error.id },
      fault: printable(error.message),
    };
  }
}
