import { type ByteRange, type Line, type Mark, readLines } from '../common/lines.ts';
import { printable } from '../common/printable.ts';
import type { Source } from '../common/source.ts';
import { readRows } from './csv.ts';
import type { Format } from './format.ts';
import { type ImportedHotel, LineFault, parseHotel, readHotel } from './hotel.ts';

/** Line of the source: its hotel or its fault. */
export interface ImportRecord extends ByteRange {
  line: number;
  /** number of IRIs converted to URIs */
  convertedUris: number;
  /** of a wrong line only the id, if that is valid */
  hotel: Partial<ImportedHotel>;
  /** undefined for a valid line */
  fault: string | undefined;
}

/** Reads and checks the lines behind a mark; yields an array for each chunk of the source. */
export async function* readRecords(
  source: Source,
  format: Format,
  mark: Mark,
): AsyncGenerator<ImportRecord[]> {
  const { layout } = format;
  for await (const lines of readLines(source.read(mark.start), mark, { quoted: layout !== undefined })) {
    if (!layout) {
      yield lines.map((line) => checked(line, parseHotel));
      continue;
    }
    const texts = lines.flatMap(({ text }) => text ?? []);
    const rows = readRows(layout, texts).values();
    yield lines.map((line) =>
      checked(line, (_, onIri) => {
        const row = rows.next().value;
        if (row instanceof LineFault) throw row;
        return readHotel(row, onIri);
      }),
    );
  }
}

function checked(
  { number: line, start, end, text, fault }: Line,
  read: (text: string, onIri: () => void) => ImportedHotel,
): ImportRecord {
  const wrong = { line, start, end, convertedUris: 0, hotel: {}, fault };
  if (text === undefined) return wrong;
  try {
    let convertedUris = 0;
    const hotel = read(text, () => convertedUris++);
    return { line, start, end, convertedUris, hotel, fault: undefined };
  } catch (error) {
    if (!(error instanceof LineFault)) throw error;
    const hotel = error.id === undefined ? {} : { id: error.id };
    return { ...wrong, hotel, fault: printable(error.message) };
  }
}
