import type { Sql } from 'postgres';
import { Failure } from '../lib/failure.ts';
import { copyIn, copyRow } from './copy.ts';
import { hotelAt, type SeededHotel } from './seed/hotel.ts';

const BATCH = 500;

/** Default seed. */
export const DEFAULT_SEED = 1;

/**
 * Fills the empty table `hotels` with the hotels of the indexes 0 to `count` - 1, in one transaction. Returns the number of
 * inserted hotels. If the table is not empty it throws a `Failure`, or returns 0 with `ifEmpty`.
 */
export async function seed(
  sql: Sql,
  count: number,
  options: { seed: number; today: string; ifEmpty?: boolean; onProgress?: (hotels: number) => void },
): Promise<number> {
  const inserted = await sql.begin(async (transaction) => {
    await transaction`set local statement_timeout = 0`;
    await transaction`lock table hotels in share row exclusive mode`;
    const [row] = await transaction`select exists (select from hotels) as filled`;
    if (row!.filled && options.ifEmpty) return 0;
    if (row!.filled) {
      throw new Failure(
        'The table hotels is not empty, and generated hotels are not mixed with others. ' +
          'Use an empty database, or first run in SQL: truncate hotels',
      );
    }
    const columns = Object.keys(hotelAt(0, options.seed, options.today)) as (keyof SeededHotel)[];
    function* rows(): Generator<string> {
      for (let from = 0; from < count; from += BATCH) {
        const until = Math.min(count, from + BATCH);
        let text = '';
        for (let index = from; index < until; index++) {
          const hotel = hotelAt(index, options.seed, options.today);
          text += copyRow(columns.map((column) => hotel[column]));
        }
        options.onProgress?.(until);
        yield text;
      }
    }
    await copyIn(transaction, `copy hotels (${columns.join(', ')}) from stdin`, rows);
    return count;
  });
  await sql`analyze hotels`;
  return inserted;
}
