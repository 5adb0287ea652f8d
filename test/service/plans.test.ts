import { expect, it } from 'vitest';
import { CollectionRepository } from '../../src/collections/repository.ts';
import type { Origin } from '../../src/postgres/origin.ts';
import { freshDatabase } from '../support/database.ts';

it('a large collection is read in the order of its index, also without statistics', async () => {
  const { sql } = await freshDatabase();
  await sql`alter table collection_hotels set (autovacuum_enabled = false)`;
  await sql`insert into hotels (id, name) select 'h' || i, 'Hotel' from generate_series(1, 20000) as i`;
  await sql`insert into collections (id, name) values ('large', 'Large')`;
  await sql`insert into collection_hotels (collection_id, hotel_id) select 'large', id from hotels`;
  const queries: [string, string[]][] = [];
  const rows = async (...query: [string, string[]]) => {
    queries.push(query);
    return [];
  };
  const collections = new CollectionRepository({ rows } as unknown as Origin);
  const list = collections.listOf('large');
  await list.ids([null, null], 4_999, 100);
  await list.ids(['h1', 'h9'], 0, 1_000);
  await list.survey([[null, null]], 1_000);
  await collections.membersAfter('large', 'h1', 2_000);
  await sql`set enable_seqscan = off`;
  for (const [text, parameters] of queries) {
    const plan = await sql.unsafe(`explain (costs off) ${text}`, parameters);
    const lines = plan.map((row) => row['QUERY PLAN']).join('\n');
    expect(lines).toContain('collection_hotels_by_id_bytes');
    // the ranges of a survey have an order, their ids need none
    expect(lines.replace('Sort Key: bounds.number', '')).not.toContain('Sort Key');
  }
});
