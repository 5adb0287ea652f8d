import { parse } from 'csv-parse/sync';
import { Hotel, valueSchemaOf } from '../../hotels/hotel.ts';
import { FIELDS_OF_ROW } from '../../hotels/row.ts';
import { LINE_LIMIT_BYTES, type Line } from '../common/lines.ts';
import { count } from '../common/progress.ts';

const DELIMITERS = [',', ';', '\t'];
const NUMBERS = new Set<string>(
  FIELDS_OF_ROW.filter((field) => {
    const { type, format } = valueSchemaOf(Hotel.properties[field]);
    // integers of 64 bits are read as text
    return type === 'number' || (type === 'integer' && format !== 'int64');
  }),
);
/** A digit belongs to one part only: two that may take it would take quadratic time of a long cell. */
const NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;
/** Texts of databases and spreadsheets for null. */
const NULLS = new Set(['NULL', '\\N']);

/** Header row of CSV, with commas, semicolons or tabs. */
export interface Header {
  line: { number: number; text: string };
  delimiter: string;
  columns: string[];
}

/** Returns the header row that a line holds; undefined if it has no field `id`. */
export function readHeader(line: { number: number; text: string }): Header | undefined {
  for (const delimiter of DELIMITERS) {
    const columns = cellsOf([line.text], delimiter)?.[0]?.map((cell) => cell.trim());
    if (columns?.includes('id')) return { line, delimiter, columns };
  }
  return undefined;
}

/**
 * Joins the lines of each row below the header that spans several, of at most 1 MiB. If a quote is not closed, only its line
 * is wrong, and reading continues at the next one: an open quote takes no other hotel with it.
 */
export async function* joinRows(
  chunks: AsyncIterable<Line[]>,
  { line: header, delimiter }: Header,
): AsyncGenerator<Line[]> {
  let held: Line[] = [];
  /** Returns the rows of the held lines, and keeps the last lines if their row may continue. */
  const join = (isEnd: boolean): Line[] => {
    const rows: Line[] = [];
    for (let at = 0; at < held.length; at++) {
      const first = held[at]!;
      if (!hasOddQuotes(first)) {
        rows.push(first);
        continue;
      }
      let rowBytes = first.bytes.length;
      let last = at;
      let end: Line | undefined;
      let fits: boolean;
      // a quote that is not closed ends at the next one, so no line is followed twice
      do {
        end = held[++last];
        rowBytes += 1 + (end?.bytes.length ?? 0);
        fits = end?.text !== undefined && rowBytes <= LINE_LIMIT_BYTES;
      } while (fits && !hasOddQuotes(end!));
      if (!end && !isEnd) {
        held = held.slice(at);
        return rows;
      }
      const lines = held.slice(at, last + 1);
      const text = lines.map((line) => line.text).join('\n');
      if (fits && cellsOf([text], delimiter)?.length === 1) {
        const bytes = Buffer.from(text);
        rows.push({ ...end!, number: first.number, bytes, text });
        at = last;
      } else {
        const others = lines.length - 1;
        const swallowed = others > 0 ? `: it would swallow ${count('line')(others)} after it` : '';
        rows.push({ ...first, text: undefined, fault: `a quote is not closed${swallowed}` });
      }
    }
    held = [];
    return rows;
  };
  for await (const chunk of chunks) {
    held = [...held, ...chunk.filter(({ number }) => number > header.number)];
    yield join(false);
  }
  yield join(true);
}

const hasOddQuotes = ({ text = '' }: Line) => text.split('"').length % 2 === 0;

/** Reads each row as an object, an `Error` with its fault, or undefined if it repeats the header. */
export function parseRows(texts: string[], header: Header): unknown[] {
  // one call for many rows is seven times faster than one for each, but fails as a whole for a single wrong row
  const rows = cellsOf(texts, header.delimiter);
  if (rows?.length === texts.length) return rows.map((row) => readRow(row, header.columns));
  if (texts.length === 1) return [new Error('not valid CSV: check its quotes')];
  return texts.flatMap((text) => parseRows([text], header));
}

/** Reads numbers and images in their own type, the rest as trimmed text. Omits empty cells; a text for null becomes empty. */
function readRow(cells: string[], columns: string[]): unknown {
  if (cells.length !== columns.length)
    return new Error(`it has ${cells.length} cells, the header row names ${columns.length} fields`);
  if (cells.every((cell, i) => cell.trim() === columns[i])) return undefined;
  const hotel: Record<string, unknown> = {};
  for (const [i, column] of columns.entries()) {
    const cell = cells[i]!.trim();
    if (cell !== '') hotel[column] = readCell(column, cell);
  }
  return hotel;
}

function readCell(column: string, cell: string): unknown {
  if (NULLS.has(cell) && column !== 'id' && column !== 'name') return column === 'images' ? [] : '';
  // an invalid number or JSON stays text, so that the check of the field reports it
  if (NUMBERS.has(column)) return NUMBER.test(cell) ? Number(cell) : cell;
  // spreadsheets write integers with decimals
  if (column === 'registry_id') return cell.replace(/^(-?\d+)\.0+$/, '$1');
  if (column !== 'images') return cell;
  try {
    return JSON.parse(cell);
  } catch {
    return cell;
  }
}

function cellsOf(texts: string[], delimiter: string): string[][] | undefined {
  const content = texts.map((text) => text.replace(/\r$/, '')).join('\n');
  try {
    return parse(content, { delimiter, record_delimiter: '\n', relax_column_count: true, trim: true });
  } catch {
    return undefined;
  }
}
