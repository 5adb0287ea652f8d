import type { Sql } from 'postgres';
import { expect, it } from 'vitest';
import { changesQuery, walkQuery } from '../../src/changes/log-queries.ts';
import { freshDatabase } from '../support/database.ts';
import { postgresClient } from '../support/postgres-client.ts';
import {
  blocksOf,
  insertHotels,
  logAfter,
  queueSingly,
  sequence,
  sequenceAll,
  stateOf,
} from './sequenced.ts';

const CHANGES = 900;
/** Hotels that change, and some that do not. */
const IDS = [
  ...Array.from({ length: 3_000 }, (_, i) => `h${i + 1}`),
  ...Array.from({ length: 200 }, (_, i) => `a${i + 1}`),
];
/** Additional blocks that say nothing: another page of an index, or a first look at a table of the system. */
const A_FEW = 12;

/** Plans for known parameters, and those that are kept for any. */
const PLANS = ['force_custom_plan', 'force_generic_plan'] as const;

/** Opens a session with each of the plans. */
async function planners(ownerUrl: string): Promise<Sql[]> {
  const sessions = PLANS.map(() => postgresClient(ownerUrl));
  for (const [i, plans] of PLANS.entries()) await sessions[i]!.unsafe(`set plan_cache_mode = ${plans}`);
  return sessions;
}

/** Returns the blocks that each of the queries of the service reads in each of the sessions. */
async function blocksOfAll(sessions: Sql[]): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const [at, sql] of sessions.entries()) {
    const { position, transaction } = await stateOf(sql);
    const [near] = await sql<[{ position: number; transaction: string }]>`
      select position::float8, transaction::text from hotel_api_log where position <= ${position - 20}
      order by position desc limit 1`;
    const statements: Record<string, [text: string, ...parameters: (string | number)[]]> = {
      'idle poll': ['select * from hotel_api_poll($1, $2, 100)', position, transaction],
      'poll of a few rows': ['select * from hotel_api_poll($1, $2, 100)', near.position, near.transaction],
      label: ['select position from hotel_api_log order by position desc limit 1'],
      load: [
        `select * from (select position from hotel_api_log order by position desc limit 1) as mark
          left join hotels on id = any($1::text[])`,
        `'{h5,h7,h9}'`,
      ],
      changes: [changesQuery(null), near.position, 100],
      walk: [walkQuery(null), 'null', 100, `'a'`],
      sequence: ['select hotel_api_sequence()'],
    };
    for (const [what, [text, ...parameters]] of Object.entries(statements)) {
      await sql.unsafe(`prepare measured as ${text}`);
      const execute = `execute measured${parameters.length > 0 ? `(${parameters})` : ''}`;
      // the first run fills the caches of the session, and one may delete what transactions of other databases held back
      const runs: number[] = [];
      for (let i = 0; i < 5; i++) {
        if (what === 'sequence') await sql`update hotels set name = 'sequenced' where id = 'h3000'`;
        runs.push(await blocksOf(sql, execute));
      }
      found[`${what} (${PLANS[at]})`] = Math.min(...runs.slice(1));
      await sql`deallocate measured`;
    }
  }
  return found;
}

/** Changes one hotel, and sequences the change. */
async function change(sql: Sql, i: number): Promise<void> {
  await sql`update hotels set name = 'Changed' where id = ${`h${100 + i}`}`;
  await sequence(sql);
}

it('a snapshot held open for thousands of changes lets no query read more', async () => {
  const { sql, ownerUrl } = await freshDatabase();
  const [both, holder] = [await planners(ownerUrl), postgresClient(ownerUrl)];
  // a page of a table has room for changes, as autovacuum leaves it
  await sql`alter table hotels set (fillfactor = 50)`;
  await insertHotels(sql, IDS);
  for (let i = 0; i < 40; i++) await change(sql, i);
  await sql`vacuum analyze`;
  const without = await blocksOfAll(both);
  await holder.unsafe('begin isolation level repeatable read; select count(*) from hotels').simple();
  const change300 = async (from: number) => {
    for (let i = from; i < from + 300; i++) await change(sql, i);
    await sql`vacuum hotels, hotel_api_queue, hotel_api_log`;
    return blocksOfAll(both);
  };
  const soon = await change300(0);
  for (let i = 300; i < CHANGES - 300; i += 300) await change300(i);
  const late = await change300(CHANGES - 300);
  for (const what of Object.keys(late)) {
    expect(late[what], `${what}, later`).toBeLessThanOrEqual(soon[what]! + A_FEW);
    // two versions of each hotel, and of the rows of catalogs
    expect(late[what], what).toBeLessThanOrEqual(2 * without[what]! + 2 * A_FEW);
  }
  await holder`rollback`;
});

it('the rows of an open transaction are not read by polls, labels, changes and the sequencer', async () => {
  const { sql, ownerUrl } = await freshDatabase();
  const [both, writer] = [await planners(ownerUrl), postgresClient(ownerUrl)];
  await insertHotels(sql, IDS);
  for (let i = 0; i < 40; i++) await change(sql, i);
  await sql`vacuum analyze`;
  const without = await blocksOfAll(both);
  await writer`begin`;
  await queueSingly(writer, 30_000, 'open-');
  // others go on beside it
  for (let i = 0; i < 20; i++) await change(sql, i);
  const beside = await blocksOfAll(both);
  for (const [what, blocks] of Object.entries(beside))
    expect(blocks, what).toBeLessThanOrEqual(without[what]! + 2 * A_FEW);
  const { position } = await stateOf(sql);
  await writer`commit`;
  await sequenceAll(sql);
  const rows = await logAfter(sql, position);
  expect(new Set(rows.flatMap(({ id }) => id ?? [])).size).toBe(30_000);
});
