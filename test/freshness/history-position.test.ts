import { beforeAll, expect, it } from 'vitest';
import { isBefore } from '../../src/change-feed/history.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';

/** Progress: the number of a term, its name, its count of announcements, and its history (default: the present one). */
type Position = [number: number, term: string, count: number, history?: string];

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});

class RolledBack extends Error {}

/** Returns whether a term begins a new history in a database at `stored` if its instance has received `received`. */
async function beginsAnother(stored: Position, received: Position): Promise<boolean> {
  let begun: boolean | undefined;
  await database.sql
    .begin(async (sql) => {
      const [number, term, count] = stored;
      const [before] = await sql`
        update hotel_api_feed_position
        set number = ${number}, term = ${term}, count = ${count}, written_by = default, place = default
        returning history`;
      const [after] = await sql`
        select history, number from hotel_api_begin_term(
          'next', 0, ${received[3] ?? before!.history}, ${received[0]}, ${received[1]}, ${received[2]}
        )`;
      begun = after!.history !== before!.history;
      // every instance that knows no more than this one follows it
      if (begun) expect(Number(after!.number)).toBeGreaterThan(Math.max(number, received[0]));
      throw new RolledBack();
    })
    .catch((error) => {
      if (!(error instanceof RolledBack)) throw error;
    });
  return begun!;
}

/** An instance that listens compares in TypeScript, one that begins a term compares in SQL. */
it.each<[stored: Position, received: Position, isBefore: boolean]>([
  [[1, 'a', 0], [1, 'a', 0], false],
  [[1, 'a', 5], [1, 'a', 5], false],
  [[1, 'a', 6], [1, 'a', 5], false],
  [[1, 'a', 4], [1, 'a', 5], true],
  [[1, 'b', 5], [1, 'a', 5], true],
  [[1, 'b', 6], [1, 'a', 5], true],
  [[1, 'b', 4], [1, 'a', 5], true],
  [[2, 'b', 0], [1, 'a', 5], false],
  [[2, 'b', 9], [1, 'a', 5], false],
  [[2, 'a', 4], [1, 'a', 5], false],
  [[1, 'a', 5], [2, 'b', 0], true],
  [[1, 'a', 9], [2, 'b', 1], true],
  [[0, '', 0], [0, '', 0], false],
  [[0, '', 0], [1, 'a', 1], true],
  [[1, 'a', 1], [0, '', 0], false],
  [[1, 'a', 5], [1, 'a', 5, 'another'], true],
  [[1, 'a', 5], [3, 'c', 2, 'another'], true],
  [[3, 'c', 2], [4, '', 0, 'another'], true],
  [[3, 'c', 0], [2, 'b', 9, 'another'], false],
])('%j is behind %j: %s, in TypeScript and in SQL', async (stored, received, expected) => {
  const [number, term, count] = stored;
  const [knownNumber, knownTerm, knownCount, history = 'present'] = received;
  const known = { history, number: knownNumber, term: knownTerm, count: knownCount };
  expect(isBefore({ history: 'present', number, term, count }, known)).toBe(expected);
  expect(await beginsAnother(stored, received)).toBe(expected);
});
