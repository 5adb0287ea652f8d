import { parse } from 'csv-parse/sync';
import { valueSchemaOf } from '../../hotels/hotel.ts';
import { FIELDS_OF_ROW } from '../../hotels/row.ts';

const DELIMITERS = [',', ';', '\t'];
const NUMBERS = new Set<string>(
  FIELDS_OF_ROW.filter((field) => {
    const { type, format } = valueSchemaOf(field);
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

/** Reads each row, which is one line, as an object, an `Error` with its fault, or undefined if it repeats the header. */
export function parseRows(texts: string[], header: Header): unknown[] {
  // one call for many rows is seven times faster than one for each, but fails as a whole for a single wrong row
  const rows = cellsOf(texts, header.delimiter);
  if (rows?.length === texts.length) return rows.map((row) => readRow(row, header.columns));
  if (texts.length === 1) return [new Error('not valid CSV: check its quotes, and that it is one line')];
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
