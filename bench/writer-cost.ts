import postgres, { type Sql } from 'postgres';
import { seed } from '../src/cli/seed.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { withoutTriggers } from '../test/support/rows.ts';

const HOTELS = 100_000;
const ROUNDS = 6;

/**
 * `DATABASE_URL=… node bench/writer-cost.ts`: measures, in an empty database, how much longer an UPDATE of all hotels takes
 * with the triggers than without them. Alternately, so that other load of the machine affects both.
 */
const sql = postgres(process.env.DATABASE_URL!, { onnotice: () => {} }) as unknown as Sql;
await migrate(sql);
await seed(sql, HOTELS, { seed: 1, today: '2026-01-01' });

async function update(on: Sql): Promise<number> {
  const beganMs = performance.now();
  await on`update hotels set room_count = coalesce(room_count, 0) + 1`;
  return performance.now() - beganMs;
}

const bestMs: [without: number, withTriggers: number] = [Infinity, Infinity];
for (let round = 0; round <= ROUNDS; round++)
  for (const which of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
    await sql`vacuum hotels`;
    await sql`truncate hotel_api_queue`;
    await sql`checkpoint`;
    const updateMs = which === 0 ? await withoutTriggers(sql, update) : await update(sql);
    // the first round fills the caches
    if (round > 0) bestMs[which] = Math.min(bestMs[which], updateMs);
  }
const [without, withTriggers] = bestMs.map(Math.round);
console.log(
  `UPDATE of ${HOTELS} rows, at best: ${without} ms without triggers, ${withTriggers} ms with them: ${(bestMs[1] / bestMs[0]).toFixed(2)} times`,
);
await sql.end();
