import { parse } from 'csv-parse/sync';
import { valueSchemaOf } from '../../hotels/hotel.ts';
import { FIELDS_OF_ROW } from '../../hotels/row.ts';
import type { Line } from '../common/lines.ts';
import type { Format } from './records.ts';

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

/**
 * Returns the format of rows below a header row with commas, semicolons or tabs; undefined if the line has no field `id`. A
 * row may span lines between quotes.
 */
export function csvBelow(line: Line & { text: string }): (Format & { columns: string[] }) | undefined {
  for (const delimiter of DELIMITERS) {
    const columns = cellsOf([line.text], delimiter)?.[0]?.map((cell) => cell.trim());
    if (columns?.includes('id'))
      return {
        name: 'csv',
        columns,
        header: `${line.text}\n`,
        mark: { number: line.number, start: line.end + 1 },
        opener: 'a quote',
        // a quote that is not closed ends at the next one, so no line is followed twice
        maxLines: Infinity,
        opens: (text) => (hasOddQuotes(text) ? hasOddQuotes : undefined),
        isRecord: (text) => cellsOf([text], delimiter)?.length === 1,
        read: (texts) => readRows(texts, delimiter, columns),
      };
  }
  return undefined;
}

const hasOddQuotes = (text: string) => text.split('"').length % 2 === 0;

function readRows(texts: string[], delimiter: string, columns: string[]): unknown[] {
  // one call for many rows is seven times faster than one for each, but fails as a whole for a single wrong row
  const rows = cellsOf(texts, delimiter);
  if (rows?.length === texts.length) return rows.map((row) => readRow(row, columns));
  if (texts.length === 1) return [new Error('not valid CSV: check its quotes')];
  return texts.flatMap((text) => readRows([text], delimiter, columns));
}

/** Reads numbers and images in their own type, the rest as trimmed text. Omits empty cells; a text for null becomes empty. */
function readRow(cells: string[], columns: string[]): unknown {
  if (cells.length !== columns.length)
    return new Error(`it has ${cells.length} cells, the header row names ${columns.length} fields`);
  const hotel: Record<string, unknown> = {};
  let isHeader = true;
  for (const [i, column] of columns.entries()) {
    const cell = cells[i]!.trim();
    isHeader &&= cell === column;
    if (cell !== '') hotel[column] = readCell(column, cell);
  }
  return isHeader ? undefined : hotel;
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
