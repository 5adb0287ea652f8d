import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sql } from 'postgres';
import type { Shutdown } from '../../src/lib/shutdown.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { checkOut } from '../compare.ts';
import { migrateBy } from '../world.ts';

/** Rows of a statement whose writer is timed. */
const WRITTEN = 1_000;

type Rounds = Record<string, number[]>;

/** Times writers of this schema and of an earlier commit's, in turn, while no service runs. */
export async function writersOf(
  sql: Sql,
  rounds: number,
  shutdown: Shutdown,
  adminUrl: string,
  commit: string | undefined,
): Promise<{ ours: Rounds; before?: Rounds }> {
  if (commit === undefined) return { ours: await writeRounds(sql, rounds) };
  console.error(`Writing with the schema of ${commit}, and of this release …`);
  const folder = await mkdtemp(join(tmpdir(), 'hotel-api-schema-'));
  shutdown.push('schema', () => rm(folder, { recursive: true, force: true }), 12_000);
  const admin = openDatabase(adminUrl, 1, { kind: 'operate' });
  await admin`create database before`;
  await admin.end();
  const url = adminUrl.replace(/postgres$/, 'before');
  await migrateBy(checkOut(commit, join(folder, 'tree')), url);
  const earlier = openDatabase(url, 1, { kind: 'operate' });
  shutdown.push('connection to before', () => earlier.end({ timeout: 0 }));
  await copyHotels(sql, earlier);
  const [ours, before]: [Rounds, Rounds] = [{}, {}];
  for (let round = 0; round < rounds; round++) {
    for (const [rows, at] of [
      [ours, sql],
      [before, earlier],
    ] as const) {
      for (const [name, [ms]] of Object.entries(await writeRounds(at, 1))) append(rows, name, ms!);
    }
  }
  return { ours, before };
}

/** Copies as many hotels as the writers need. */
async function copyHotels(from: Sql, to: Sql): Promise<void> {
  const rows =
    await from`select to_jsonb(h) - 'version' as hotel from hotels as h order by id limit ${20 * WRITTEN}`;
  for (let i = 0; i < rows.length; i += WRITTEN) {
    const part = rows.slice(i, i + WRITTEN).map(({ hotel }) => hotel);
    await to`insert into hotels select * from jsonb_populate_recordset(null::hotels, ${to.json(part)})`;
  }
}

/** Times transactions of writers, in ms: a statement of 1000 rows, and 200 of one row. */
async function writeRounds(sql: Sql, rounds: number): Promise<Rounds> {
  const timed = async (work: () => PromiseLike<unknown>) => {
    const beganAtMs = performance.now();
    await work();
    return performance.now() - beganAtMs;
  };
  const some = sql`select id from hotels order by id limit ${WRITTEN}`;
  const made = sql`select 'bench-' || i, 'Bench' from generate_series(1, ${WRITTEN}::integer) as i`;
  const one = (i: number) => sql`update hotels set room_count = ${i} where id = (select min(id) from hotels)`;
  const works: [name: string, work: () => PromiseLike<unknown>][] = [
    [
      'update of 1000',
      () => sql`update hotels set room_count = coalesce(room_count, 0) + 1 where id in (${some})`,
    ],
    ['insert of 1000', () => sql`insert into hotels (id, name) ${made}`],
    ['deletion of 1000', () => sql`delete from hotels where id like 'bench-%'`],
    [
      '200 updates of one',
      async () => {
        for (let i = 0; i < 200; i++) await one(i);
      },
    ],
  ];
  const results: Rounds = {};
  for (let round = -1; round < rounds; round++)
    for (const [name, work] of works) {
      const ms = await timed(work);
      if (round >= 0) append(results, name, ms);
    }
  return results;
}

function append(rounds: Rounds, name: string, ms: number): void {
  const values = rounds[name] ?? [];
  values.push(ms);
  rounds[name] = values;
}
