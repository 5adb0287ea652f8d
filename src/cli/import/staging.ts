import { pipeline } from 'node:stream/promises';
import type { TransactionSql } from 'postgres';
import { copyRow } from '../copy.ts';
import { IMPORTED_COLUMNS, type ImportedHotel, LineFault, parseHotel } from './hotel.ts';
import { type Line, readLines } from './lines.ts';
import type { Source, Stretch } from './source.ts';

/** Collects what is rejected: the reason goes to the operator at once, the place of the line is kept. */
export class Rejections {
  readonly stretches: Stretch[] = [];
  /** lines of which not even the hotel's id could be told */
  withoutId = 0;
  readonly #report: (sentence: string) => void;

  constructor(report: (sentence: string) => void) {
    this.#report = report;
  }

  add(line: number, { start, end }: Stretch, reason: string): void {
    this.stretches.push({ start, end });
    this.#report(`line ${line}: ${reason}`);
  }
}

/**
 * Copies the hotels of the source to the temporary table `incoming` (line, starts_at, ends_at, rejected, and the
 * columns of a hotel). Of a wrong line it holds only the id, with `rejected` true. Memory does not grow with the source,
 * but for some bytes a rejected line. Returns how many lines were not blank.
 */
export async function stage(
  transaction: TransactionSql,
  source: Source,
  rejections: Rejections,
  onProgress: (bytes: number) => void,
): Promise<number> {
  await transaction.unsafe(`
    create temporary table incoming on commit drop as
    select 0::bigint as line, 0::float8 as starts_at, 0::float8 as ends_at, false as rejected, ${IMPORTED_COLUMNS.join(', ')}
    from hotels with no data`);
  let count = 0;
  async function* rows(): AsyncGenerator<string> {
    for await (const lines of readLines(source.handle)) {
      let text = '';
      for (const line of lines) text += stagedRow(line, rejections);
      count += lines.length;
      if (lines.length > 0) onProgress(lines.at(-1)!.end);
      if (text !== '') yield text;
    }
  }
  const sink = await transaction.unsafe('copy incoming from stdin').writable();
  await pipeline(rows, sink);
  await transaction`analyze incoming`;
  return count;
}

function stagedRow(line: Line, rejections: Rejections): string {
  let hotel: Partial<ImportedHotel> = {};
  let rejected = false;
  try {
    if (line.text === undefined) throw new LineFault(line.fault);
    hotel = parseHotel(line.text);
  } catch (error) {
    if (!(error instanceof LineFault)) throw error;
    rejections.add(line.number, line, error.message);
    if (error.id === undefined) {
      rejections.withoutId++;
      return '';
    }
    rejected = true;
    hotel.id = error.id;
  }
  return copyRow([
    line.number,
    line.start,
    line.end,
    rejected,
    ...IMPORTED_COLUMNS.map((column) => hotel[column]),
  ]);
}
