import type { Sql } from 'postgres';
import type { HotelRow } from '../hotels/row.ts';
import { Failure } from '../lib/failure.ts';
import { parseWhole } from './common/arguments.ts';
import { copyIn, copyRow } from './common/copy.ts';
import type { CliCommand } from './common/help.ts';
import { count, Progress } from './common/progress.ts';
import { onDatabase } from './common/session.ts';
import { hotelAt } from './seed/hotel.ts';

const BATCH = 500;

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
    const columns = Object.keys(hotelAt(0, options.seed, options.today)) as (keyof HotelRow)[];
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

export function addCommand(program: CliCommand): void {
  program
    .command('seed')
    .description(
      'fill an empty table with generated hotels in real cities; the same seed and day give the same hotels',
    )
    .requiredOption('--hotels <n>', 'number of hotels', parseWhole(1, 100_000_000))
    .option('--seed <s>', 'seed of the generator', parseWhole(0, 2_147_483_647), DEFAULT_SEED)
    .option('--if-empty', 'do nothing and succeed when the table holds hotels')
    .json('{"inserted","seed","today"}')
    .examples('hotel-api seed --hotels 20000', 'hotel-api seed --hotels 1000000 --seed 7')
    .action(onDatabase(runSeed));
}

async function runSeed(sql: Sql, options: { hotels: number; seed: number; ifEmpty?: boolean }) {
  const today = new Date().toISOString().slice(0, 10);
  const progress = new Progress('seeding', options.hotels, count('hotel'));
  const onProgress = (done: number) => progress.at(done);
  const inserted = await seed(sql, options.hotels, { ...options, today, onProgress }).finally(() =>
    progress.stop(),
  );
  return { printed: { inserted, seed: options.seed, today } };
}
