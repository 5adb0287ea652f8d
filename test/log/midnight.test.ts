import { array, assert, asyncProperty, integer, option, record } from 'fast-check';
import type { Sql } from 'postgres';
import { expect, it } from 'vitest';
import {
  changeState,
  freshLog,
  idsAfter,
  insertHotels,
  logAfter,
  poll,
  sequence,
  sequenceAll,
  smallLog,
  stateOf,
} from './sequenced.ts';

/** More hotels than one call in a small database scans. */
const MANY = 6_000;

const TODAY = `(now() at time zone 'UTC')::date`;

/** Returns the hotels whose certification is another one on a day so far from today, in days. */
async function flipped(sql: Sql, days: number): Promise<string[]> {
  const isCertified = (day: string) => `coalesce(${day} between certified_from and certified_until, false)`;
  const rows = await sql.unsafe<{ id: string }[]>(
    `select id from hotels where ${isCertified(TODAY)} <> ${isCertified(`${TODAY} + ${days}`)} order by id collate "C"`,
  );
  return rows.map(({ id }) => id);
}

it('hotels whose certification begins or ends between two days are listed, also behind skipped days and a clock that goes back', async () => {
  const { sql } = await freshLog();
  const day = option(integer({ min: -6, max: 6 }));
  await assert(
    asyncProperty(
      array(record({ from: day, until: day }), { minLength: 1, maxLength: 30 }),
      integer({ min: -5, max: 5 }).filter((days) => days !== 0),
      async (hotels, days) => {
        await sql`delete from hotels`;
        const rows = hotels.map(
          ({ from, until }, i) =>
            `('h${i}', 'Hotel', ${TODAY} + ${from}::integer, ${TODAY} + ${until}::integer)`,
        );
        await sql.unsafe(
          `insert into hotels (id, name, certified_from, certified_until) values ${rows.join()}`,
        );
        await sequence(sql);
        await changeState(sql, `state.day = ${TODAY} + ${days}`);
        const { position } = await stateOf(sql);
        expect(await poll(sql)).toMatchObject({ isDue: true, isUnread: false });
        await sequence(sql);
        expect(await poll(sql)).toMatchObject({ isDue: false });
        expect(await idsAfter(sql, position, 'listed')).toEqual(
          expect.arrayContaining(await flipped(sql, days)),
        );
        expect((await logAfter(sql, position)).every(({ kind }) => kind === 'listed')).toBe(true);
      },
    ),
    { numRuns: 40 },
  );
});

it('a midnight of many hotels is taken in pieces, behind what changes meanwhile, and survives another midnight', async () => {
  const { sql } = await smallLog();
  await sql`insert into hotels (id, name, certified_from, certified_until)
    select 'h' || i, 'Hotel', ${sql.unsafe(TODAY)} - i % 3, ${sql.unsafe(TODAY)} + 30 from generate_series(1, ${MANY}::integer) as i`;
  await sequenceAll(sql);
  await changeState(sql, `state.day = ${TODAY} - 1`);
  const { position } = await stateOf(sql);
  await sequence(sql);
  const first = await stateOf(sql);
  expect(first.flips_after).not.toBeNull();
  expect(await poll(sql, first)).toMatchObject({ isDue: true, isUnread: false });
  await insertHotels(sql, ['meanwhile']);
  await sequence(sql);
  expect((await logAfter(sql, first.position))[0]).toMatchObject({ kind: 'hotels', id: 'meanwhile' });
  // the clock was wrong all the time: it began on an earlier day
  await changeState(sql, `state.day = ${TODAY} - 2`);
  await sequenceAll(sql);
  expect(await stateOf(sql)).toMatchObject({ flips_after: null });
  expect(await poll(sql)).toMatchObject({ isDue: false });
  const listed = new Set(await idsAfter(sql, position, 'listed'));
  const flips = [...(await flipped(sql, -1)), ...(await flipped(sql, -2))];
  expect(flips.length).toBeGreaterThan(MANY / 2);
  expect(flips.filter((id) => !listed.has(id))).toEqual([]);
});

it('a midnight waits for a lock of the table, and other changes do not', async () => {
  const { sql } = await freshLog();
  await sql.unsafe(
    `insert into hotels (id, name, certified_from, certified_until) values ('h', 'Hotel', ${TODAY}, ${TODAY})`,
  );
  await sequence(sql);
  await changeState(sql, `state.day = ${TODAY} - 1`);
  const { position } = await stateOf(sql);
  await sql.begin(async (altering) => {
    await altering`lock table hotels`;
    await sql`insert into collections (id, name) values ('c', 'Collection')`;
    await sequence(sql);
    expect((await logAfter(sql, position)).map(({ kind, id }) => [kind, id])).toEqual([['collections', 'c']]);
    expect(await sequence(sql)).toBe(await sequence(sql));
    expect(await poll(sql)).toMatchObject({ isDue: true, isUnread: false });
  });
  await sequenceAll(sql);
  expect(await idsAfter(sql, position, 'listed')).toEqual(['h']);
});
