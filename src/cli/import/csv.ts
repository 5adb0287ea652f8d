import { type Options, parse } from 'csv-parse/sync';
import { LineFault } from './hotel.ts';
import type { JoinRules } from './join.ts';

export interface CsvLayout {
  delimiter: string;
  /** fields of the header row, in its order */
  columns: string[];
}

const DELIMITERS = [',', ';', '\t'];
const NUMBERS = new Set(['latitude', 'longitude', 'star_rating', 'room_count']);
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
/** Texts of databases and spreadsheets for null. */
const NULLS = new Set(['NULL', '\\N']);
/** Fields without null. */
const REQUIRED = new Set(['id', 'name']);

/** Reads a header row with commas, semicolons or tabs; undefined if it has no field `id`. */
export function readHeader(text: string): CsvLayout | undefined {
  for (const delimiter of DELIMITERS) {
    const columns = cellsOf([text], delimiter)?.[0]?.map((cell) => cell.trim());
    if (columns?.includes('id')) return { delimiter, columns };
  }
  return undefined;
}

/** Returns the rules for rows that span lines: a newline between quotes does not end a row. */
export function rowsOverLines({ delimiter }: CsvLayout): JoinRules {
  return {
    opener: 'a quote',
    opens: (text) => (hasOddQuotes(text) ? hasOddQuotes : undefined),
    isRecord: (text) => cellsOf([text], delimiter)?.length === 1,
  };
}

function hasOddQuotes(text: string): boolean {
  let isOdd = false;
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at + 1)) isOdd = !isOdd;
  return isOdd;
}

/** Row as an object with the fields of the header; undefined for a row that repeats the header; or its fault. */
export type Row = Record<string, unknown> | undefined | LineFault;

/**
 * Reads rows to objects: numbers and images in their own type, the rest as trimmed text. An empty cell is omitted; a text
 * for null becomes an empty text.
 */
export function readRows(layout: CsvLayout, texts: string[]): Row[] {
  // one call for many rows is seven times faster than one for each, but fails as a whole for a single wrong row
  const cells = cellsOf(texts, layout.delimiter);
  if (cells?.length === texts.length) return cells.map((row) => readRow(layout, row));
  return texts.map((text) => {
    const row = cellsOf([text], layout.delimiter)?.[0];
    return row ? readRow(layout, row) : new LineFault('not valid CSV: check its quotes');
  });
}

function readRow({ columns }: CsvLayout, cells: string[]): Row {
  if (cells.length !== columns.length)
    return new LineFault(`it has ${cells.length} cells, the header row names ${columns.length} fields`);
  const hotel: Record<string, unknown> = {};
  let isHeader = true;
  for (let i = 0; i < columns.length; i++) {
    const [column, cell] = [columns[i]!, cells[i]!.trim()];
    isHeader &&= cell === column;
    if (cell !== '') hotel[column] = readCell(column, cell);
  }
  return isHeader ? undefined : hotel;
}

function readCell(column: string, cell: string): unknown {
  if (NULLS.has(cell) && !REQUIRED.has(column)) return column === 'images' ? [] : '';
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
  const options: Options = { delimiter, record_delimiter: '\n', relax_column_count: true, trim: true };
  try {
    return parse(texts.map((text) => text.replace(/\r$/, '')).join('\n'), options) as unknown as string[][];
  } catch {
    return undefined;
  }
}
