import { expect, it } from 'vitest';
import { changesQuery } from '../../src/changes/log-queries.ts';
import { LogConnection, MAX_LOG_ROWS } from '../../src/log/log-connection.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { freshLog, insertHotels, sequence, stateOf } from './sequenced.ts';

it('a page of changes whose snapshot has more rows in the queue than it reads is not the whole', async () => {
  const { sql, from: position } = await freshLog();
  const page = async () => {
    const rows = await sql.unsafe(changesQuery(null), [position, 100]);
    const { isCut } = JSON.parse(rows[0]!.state);
    return { isCut, ids: rows.map(({ changed_id }) => changed_id).filter(Boolean) };
  };
  await insertHotels(sql, ['before']);
  expect(await page()).toEqual({ isCut: false, ids: ['before'] });
  await sql.begin(async (writer) => {
    await writer`insert into hotel_api_queue (kind, ids, size)
      select 'keys', array[i::text], 1 from generate_series(1, 2000) as i`;
    await insertHotels(writer, ['behind']);
  });
  expect(await page()).toEqual({ isCut: true, ids: ['before'] });
});

it('a poll carries at most 20,000 ids: the longest ones arrive within its timeout', async () => {
  const { sql, ownerUrl } = await freshLog();
  const from = await stateOf(sql);
  for (let drain = 0; drain < 2; drain++) {
    await sql`insert into hotel_api_queue (kind, ids, channel_ids, registry_ids, size)
      select 'hotels', array_agg(i::text), array_agg(i::text), array_agg(i), 1000 from generate_series(1, 20000) as i
      group by (i - 1) / 1000`;
    await sequence(sql);
  }
  const { rows, isCut } = await new LogConnection(postgresClient(ownerUrl)).poll(from);
  expect(isCut).toBe(true);
  expect(rows).toHaveLength(MAX_LOG_ROWS);
  expect(rows.flatMap(({ ids }) => ids)).toHaveLength(20_000);
});
