import { beforeAll, describe, expect, it, vi } from 'vitest';
import { randomFrom } from '../../bench/draws.ts';
import { disturb } from '../history/faults.ts';
import { Follower } from '../history/follower.ts';
import { read } from '../history/reader.ts';
import {
  COLLECTION,
  type Random,
  type System,
  startSystem,
  type View,
  versionOf,
} from '../history/system.ts';
import { IDS, write } from '../history/writers.ts';
import { AllWorkers } from '../support/all-workers.ts';
import { readLogState, untilSequenced } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { HANG_MS } from '../support/projects.ts';

await needs('faketime', 'redis-server');

/** .ci/nightly runs others, and more. */
const SEED = Number(process.env.HISTORY_SEED ?? 1);
const HISTORIES = Number(process.env.HISTORIES ?? 1);
const WRITERS = 3;
const READERS = 3;
const VIEWS: View[] = ['full', 'narrow', 'collection', 'full', 'collection'];
/** Several pieces of the log, and several pages. */
const IMPORTED = 10_000;

let system: System;

beforeAll(async () => {
  // an odd first seed: a Redis for each service
  system = await startSystem(SEED % 2 === 1);
});

/** Returns generators that a seed determines, by number. */
function drawsOf(seed: number): (part: number) => Random {
  return (part) => {
    const draw = randomFrom(1000 * seed + part);
    return (below) => Math.floor(draw() * below);
  };
}

/** Lets mirrors of every view follow, and readers read, during `work`, and compares all with PostgreSQL after it. */
async function followDuring(
  randomOf: (part: number) => Random,
  work: Promise<unknown>,
  minLimit = 1,
  views = VIEWS,
): Promise<Follower[]> {
  let isOver = false;
  const goesOn = () => !isOver;
  const ended = work.finally(() => {
    isOver = true;
  });
  const followers = views.map((view, i) => new Follower(system, randomOf(10 + i), view, minLimit));
  const following = followers.map((follower) => follower.requestWhile(goesOn));
  const reading = Array.from({ length: READERS }, (_, i) => read(system, randomOf(30 + i), goesOn));
  await Promise.all([ended, ...following, ...reading]);
  for (const follower of followers) await expect.poll(() => follower.difference()).toBe('');
  await equalEverywhere();
  return followers;
}

/** Resolves when every worker shows the hotels of the writers as the table does, and notes that moment. */
async function equalEverywhere(): Promise<void> {
  const rows = await system.sql<{ id: string; name: string }[]>`
    select id, name from hotels where id ~ '^h[0-9]+$' order by id collate "C"`;
  const names = new Map(rows.map(({ id, name }) => [id, name]));
  // a worker that was killed may still be starting
  const all = await vi.waitFor(() => AllWorkers.of(...system.services), { timeout: HANG_MS });
  for (let i = 0; i < IDS; i++) {
    const name = names.get(`h${i}`);
    await all.until(`/hotels/h${i}`, (response) =>
      name === undefined ? response.status === 404 : response.json().name === name,
    );
  }
  system.floor = new Map(rows.map(({ id, name }) => [id, versionOf(name)]));
}

describe('mirrors equal PostgreSQL, row by row, and no response is older than what was everywhere before', () => {
  it.each(Array.from({ length: HISTORIES }, (_, i) => [SEED + i]))(
    'in the history of seed %i',
    async (seed) => {
      const randomOf = drawsOf(seed);
      const writing = Array.from({ length: WRITERS }, (_, i) => write(system, randomOf(i)));
      const disturbing = disturb(system, randomOf(20));
      const followers = await followDuring(randomOf, Promise.all([...writing, disturbing]));
      const restarts = followers.map((follower) => follower.restarts);
      console.log(`seed ${seed}: ${(await disturbing).join(', ')}; begun again ${restarts.join(', ')} times`);
    },
  );

  it('through an import of 10,000, their update and their deletion', async () => {
    const { sql } = system;
    const ids = sql`select 'bulk-' || i as id from generate_series(1, ${IMPORTED}::integer) as i`;
    const changing = async () => {
      await sql`insert into hotels (id, name) select id, 'imported' from (${ids}) as bulk`;
      await sql`update hotels set name = 'updated' where id like 'bulk-%'`;
      await sql`delete from hotels where id like 'bulk-%' and id not like 'bulk-%7'`;
    };
    await followDuring(drawsOf(0), changing(), 900, ['full', 'collection']);
    await sql`delete from hotels where id like 'bulk-%'`;
  });

  it('after a crash, if they hold changes of the queue that were committed with synchronous_commit = off', async () => {
    const {
      sql,
      postgres: { server },
    } = system;
    const followers: Follower[] = [];
    /** Adds mirrors, and returns how often each has begun again when all are equal. */
    const catchUp = async () => {
      followers.push(
        ...VIEWS.map((view, i) => new Follower(system, drawsOf(i)(followers.length), view, 900)),
      );
      await Promise.all(followers.map((follower) => expect.poll(() => follower.difference()).toBe('')));
      return followers.map((follower) => follower.restarts);
    };
    await sql`insert into hotels (id, name) values ('kept', 'before'), ('deleted', 'before')`;
    await sql`insert into collections (id, name) values (${COLLECTION}, 'Mirrored') on conflict do nothing`;
    await catchUp();
    // the changes of the test before would fill whole pages of the queue
    await untilSequenced(sql);
    const writer = await sql.reserve();
    // no instance gives positions to changes meanwhile
    const holder = postgresClient(system.services[0]!.database.ownerUrl, { max: 1 });
    await holder.unsafe('begin; lock table hotel_api_sequencer in exclusive mode').simple();
    const [walWriter] = await writer`select pid from pg_stat_activity where backend_type = 'walwriter'`;
    process.kill(walWriter!.pid, 'SIGSTOP');
    await writer`begin`;
    await writer`update hotels set name = 'after' where id = 'kept'`;
    await writer`delete from hotels where id = 'deleted'`;
    await writer`insert into collection_hotels values (${COLLECTION}, 'kept')`;
    await writer`set local synchronous_commit = off`;
    await writer`commit`;
    writer.release();
    const restarts = await catchUp();
    expect((await readLogState(sql)).isUnread).toBe(true);
    await server.kill();
    await holder.end({ timeout: 0 });
    await server.restart();
    expect((await catchUp()).slice(0, restarts.length)).toEqual(restarts);
  });
});
