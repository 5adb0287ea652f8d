import { setTimeout as sleep } from 'node:timers/promises';
import type { TransactionSql } from 'postgres';
import { COLLECTION, type Random, type System } from './system.ts';

export const IDS = 60;
const TRANSACTIONS = 25;
const DAY_MS = 86_400_000;
/** Interval at which what a transaction waits for is cancelled. The server's own timeouts, its look for deadlocks included, stop when its clock is set. */
const LONGEST_MS = 500;

type Change = (tx: TransactionSql, random: Random, system: System) => Promise<unknown>;

const idOf = (random: Random) => `h${random(IDS)}`;
/** A later change of a hotel has a higher version. */
const NAME = `'name v' || nextval('version')`;
const dayOf = (epochMs: number) => new Date(epochMs).toISOString().slice(0, 10);

const update: Change = (tx, random) =>
  tx`update hotels set name = ${tx.unsafe(NAME)} where id = ${idOf(random)}`;

/** Random changes of hotels and memberships, which other writers change too. */
const CHANGES: Change[] = [
  update,
  update,
  (tx, random) =>
    tx`insert into hotels (id, name, registry_id) values (${idOf(random)}, ${tx.unsafe(NAME)}, ${random(1e9)})
      on conflict (id) do update set name = ${tx.unsafe(NAME)}`,
  (tx, random) =>
    tx`insert into hotels (id, name) values (${idOf(random)}, ${tx.unsafe(NAME)}) on conflict (id) do nothing`,
  (tx, random) => tx`delete from hotels where id = ${idOf(random)}`,
  async (tx, random) => {
    const id = idOf(random);
    await tx`delete from hotels where id = ${id}`;
    await tx`insert into hotels (id, name) values (${id}, ${tx.unsafe(NAME)})`;
  },
  (tx, random) => {
    const [id, other] = [idOf(random), idOf(random)];
    return tx`update hotels set id = ${other}, name = ${tx.unsafe(NAME)} where id = ${id} and not exists (select from hotels where id = ${other})`;
  },
  // two ids change hands
  async (tx, random) => {
    const [id, other] = [idOf(random), idOf(random)];
    await tx`update hotels set id = 'swapped' where id = ${id}`;
    await tx`update hotels set id = ${id}, name = ${tx.unsafe(NAME)} where id = ${other}`;
    await tx`update hotels set id = ${other}, name = ${tx.unsafe(NAME)} where id = 'swapped'`;
  },
  (tx, random) => tx`update hotels set room_count = ${random(1000)} where id like ${`h${random(10)}%`}`,
  (tx, random) => {
    const id = idOf(random);
    return tx`update hotels set channel_id = ${id.replace('h', 'C')}, name = ${tx.unsafe(NAME)} where id = ${id}`;
  },
  // certified until yesterday, today, tomorrow or the day after, as the services count days
  (tx, random, { clock }) =>
    tx`update hotels set certified_from = ${dayOf(clock.now() + (random(3) - 1) * DAY_MS)},
      certified_until = ${dayOf(clock.now() + (random(4) - 1) * DAY_MS)}, certification_url = 'https://badge.example/'
      where id like ${`h${random(10)}%`}`,
  (tx, random) =>
    tx`insert into collection_hotels (collection_id, hotel_id)
      select ${COLLECTION}, 'h' || i from generate_series(${random(IDS)}::integer, ${random(IDS)}::integer) as i
      where exists (select from collections where id = ${COLLECTION}) on conflict do nothing`,
  (tx, random) =>
    tx`delete from collection_hotels where collection_id = ${COLLECTION} and hotel_id like ${`h${random(10)}%`}`,
  (tx, random) =>
    tx`update collection_hotels set hotel_id = ${idOf(random)} where collection_id = ${COLLECTION} and hotel_id = ${idOf(random)}`,
  (tx) => tx`insert into collections (id, name) values (${COLLECTION}, 'Mirrored') on conflict do nothing`,
  async (tx, random) => {
    if (random(4) > 0) return;
    // the members may stay without their collection
    if (random(2)) await tx`set local session_replication_role = replica`;
    await tx`delete from collections where id = ${COLLECTION}`;
    if (random(2)) await tx`insert into collections (id, name) values (${COLLECTION}, 'Again')`;
    await tx`set local session_replication_role = origin`;
  },
];

/**
 * Runs transactions that overlap, are committed in any order, or are rolled back. The hotels pair-a and pair-z never
 * differ in their room_count. An error rolls a transaction back: a deadlock, a conflict of ids, or a lost server.
 */
export async function write(system: System, random: Random): Promise<void> {
  const { sql } = system;
  for (let i = 0; i < TRANSACTIONS; i++) {
    let cancel: NodeJS.Timeout | undefined;
    await sql
      .begin(async (tx) => {
        const [own] = await tx<
          [{ pid: number; at: string }]
        >`select pg_backend_pid() as pid, now()::text as at`;
        // the connection may have begun something else
        const cancelOwn = () => sql`select pg_cancel_backend(pid) from pg_stat_activity
          where pid = ${own.pid} and xact_start = ${own.at}::timestamptz`;
        cancel = setInterval(() => cancelOwn().catch(() => {}), LONGEST_MS);
        for (let n = random(3); n >= 0; n--) await CHANGES[random(CHANGES.length)]!(tx, random, system);
        await tx`insert into hotels (id, name, room_count) values ('pair-a', 'a', ${i}), ('pair-z', 'z', ${i})
          on conflict (id) do update set room_count = excluded.room_count`;
        if (random(3) === 0) await sleep(random(40));
        if (random(6) === 0) throw new Error('rolled back');
      })
      .catch(() => {});
    clearInterval(cancel);
    // one of the two has another reason for a new position
    await sql`update hotels set description = ${`${i}`} where id = 'pair-z'`.catch(() => {});
    await sleep(random(10));
  }
}
