import type { Sql } from 'postgres';
import { expect, it } from 'vitest';
import { postgresClient } from '../support/postgres-client.ts';
import { freshLog, idsAfter, insertHotels, logAfter, poll, sequence, stateOf } from './sequenced.ts';

/** Makes all rows older. */
async function age(sql: Sql, interval: string): Promise<void> {
  const { position } = await stateOf(sql);
  await sql`update hotel_api_log set at = at - ${interval}::interval where position < ${position}`;
  await sql`update hotel_api_log set at = at - ${interval}::interval, transaction = pg_current_xact_id()::text::bigint
    where position = ${position}`;
}

/** Makes changes, each with a drain of its own. Returns the state of the log after the last. */
async function change(sql: Sql, count: number) {
  for (let i = 0; i < count; i++) {
    await sql`insert into hotels (id, name) values ('h', ${`Hotel ${i}`}) on conflict (id) do update set name = excluded.name`;
    await sequence(sql);
  }
  return stateOf(sql);
}

it('rows older than 30 days are deleted, and an instance at one of them begins anew in the same history', async () => {
  const { sql } = await freshLog();
  await change(sql, 3);
  await age(sql, '29 days 23 hours');
  const old = await stateOf(sql);
  const kept = await change(sql, 1);
  expect(await poll(sql, old)).toMatchObject({ isContinued: true });
  await age(sql, '2 hours');
  const now = await change(sql, 3);
  expect(now).toMatchObject({ history: old.history, log_from: old.position, oldest: old.position });
  expect(await poll(sql, old)).toMatchObject({ isContinued: null, history: old.history });
  expect(await poll(sql, { position: 1, transaction: '1' })).toMatchObject({ isContinued: null });
  expect((await poll(sql, kept)).rows).toHaveLength(3);
  await sql`select hotel_api_begin_history(${old.history}, ${old.position}, ${old.transaction}::bigint)`;
  expect(await stateOf(sql)).toMatchObject({ history: old.history, position: now.position });
});

it('a transaction of many rows at the old end stops no pruning', async () => {
  const { sql } = await freshLog();
  const first = await change(sql, 2);
  await sql`insert into collections select 'c' || i, 'Collection' from generate_series(1, 700) as i`;
  await sql`insert into collection_hotels select id, 'h' from collections`;
  await sequence(sql);
  const large = await stateOf(sql);
  expect((await logAfter(sql, first.position)).length).toBeGreaterThan(700);
  await change(sql, 2);
  await age(sql, '31 days');
  const { log_from } = await change(sql, 20);
  expect(log_from).toBeGreaterThan(large.position);
});

it('more ids than the log may have are deleted at its end, but for those of the last ten minutes', async () => {
  const { sql, from: begun } = await freshLog();
  // what lies before is older
  const first = await change(sql, 3);
  await sql`update hotel_api_log set state.ids = -1000000 where kind = 'drained' and position < ${first.position}`;
  expect((await change(sql, 2)).log_from).toBeLessThanOrEqual(begun);
  await age(sql, '5 minutes');
  expect((await change(sql, 1)).log_from).toBeLessThanOrEqual(begun);
  await age(sql, '6 minutes');
  const pruned = await change(sql, 2);
  expect(pruned).toMatchObject({ history: first.history });
  expect(pruned.log_from).toBeGreaterThan(begun);
  expect(pruned.log_from).toBeLessThan(first.position);
  expect(await poll(sql, first)).toMatchObject({ isContinued: true });
});

it('what lies before a TRUNCATE is deleted after ten minutes, and a long log shrinks faster than it grows', async () => {
  const { sql, ownerUrl } = await freshLog();
  const before = await change(sql, 400);
  await postgresClient(ownerUrl)`truncate hotels`;
  const truncated = await change(sql, 1);
  expect(truncated.log_from).toBeLessThan(before.position);
  expect(truncated.oldest).toBeGreaterThan(before.position);
  await age(sql, '11 minutes');
  expect((await change(sql, 2)).log_from).toBeGreaterThan(250);
  const { oldest } = await change(sql, 4);
  expect(Math.min(...(await logAfter(sql)).map(({ position }) => position))).toBeGreaterThanOrEqual(oldest);
  await insertHotels(sql, ['last']);
  const from = await sequence(sql);
  expect(await idsAfter(sql, from - 2)).toEqual(['last']);
});
