import { parse } from 'csv-parse/sync';
import { Hotel, valueSchemaOf } from '../../hotels/hotel.ts';
import { FIELDS_OF_ROW } from '../../hotels/row.ts';
import { count } from '../common/progress.ts';
import { LINE_LIMIT_BYTES, type Line } from '../common/source.ts';

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
  text: string;
  delimiter: string;
  columns: string[];
}

/** Returns the header row that a line holds; undefined if it has no field `id`. */
export function readHeader(text: string): Header | undefined {
  for (const delimiter of DELIMITERS) {
    const columns = cellsOf([text], delimiter)?.[0]?.map((cell) => cell.trim());
    if (columns?.includes('id')) return { text, delimiter, columns };
  }
  return undefined;
}

/**
 * Joins the lines of each row that spans several, of at most 1 MiB. If a quote is not closed, only its line
 * is wrong, and reading continues at the next one: an open quote takes no other hotel with it.
 */
export async function* joinRows(chunks: AsyncIterable<Line[]>, delimiter: string): AsyncGenerator<Line[]> {
  let rows: Line[] = [];
  /** the lines of a row whose quote is open */
  const open: Line[] = [];
  let openBytes = 0;
  const add = (line: Line): void => {
    const isOdd = hasOddQuotes(line);
    if (open.length === 0 && !isOdd) {
      rows.push(line);
      return;
    }
    open.push(line);
    openBytes += line.bytes.length + 1;
    const fits = line.text !== undefined && openBytes <= LINE_LIMIT_BYTES;
    if (open.length === 1 || (fits && !isOdd)) return;
    const text = fits ? open.map((each) => each.text).join('\n') : '';
    if (cellsOf([text], delimiter)?.length === 1)
      rows.push({ ...line, number: takeOpen()[0]!.number, bytes: Buffer.from(text), text });
    else rejectFirst();
  };
  const takeOpen = (): Line[] => {
    openBytes = 0;
    return open.splice(0);
  };
  /** Rejects the line whose quote is not closed. Of the others at most the last has one, so each is read twice at most. */
  const rejectFirst = (): void => {
    const [first, ...others] = takeOpen();
    const swallowed = others.length > 0 ? `: it would swallow ${count('line')(others.length)} after it` : '';
    rows.push({ ...first!, text: undefined, fault: `a quote is not closed${swallowed}` });
    others.forEach(add);
  };
  for await (const chunk of chunks) {
    chunk.forEach(add);
    yield rows;
    rows = [];
  }
  while (open.length > 0) rejectFirst();
  yield rows;
}

const hasOddQuotes = ({ text = '' }: Line) => text.split('"').length % 2 === 0;

/** Reads each row as an object, an `Error` with its fault, or undefined if it is the header row, also repeated. */
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
