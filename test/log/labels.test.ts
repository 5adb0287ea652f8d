import { setImmediate as turn } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { expect, it } from 'vitest';
import { systemMs } from '../../src/lib/clock.ts';
import { LogFollower } from '../../src/log/follower.ts';
import { raiseWindow } from '../../src/log/raise-window.ts';
import { Window } from '../../src/log/window.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { Postgres } from '../../src/postgres/client.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { type Applied, readLabelled } from '../../src/postgres/label.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';
import { sequence, session } from './sequenced.ts';

const HOTELS = 6;
const CHANGES_OF_EACH = 120;
/** Hotels of one large change, which the sequencer lists in pieces. */
const LARGE = 25_000;

/** A hotel that one writer changes: its name, or absent. */
class Written {
  readonly id: string;
  readonly channel: string;
  /** every state, from the moment at which it may be committed */
  readonly states: string[] = ['absent'];
  /** times at which the commit of each state was known */
  readonly knownAtMs: number[] = [-Infinity];

  constructor(i: number) {
    this.id = `hotel-${i}`;
    this.channel = `channel-${i}`;
  }

  async change(sql: Sql, name: string | null): Promise<void> {
    this.states.push(name ?? 'absent');
    if (name === null) await sql`delete from hotels where id = ${this.id}`;
    else
      await sql`insert into hotels (id, name, channel_id) values (${this.id}, ${name}, ${this.channel})
        on conflict (id) do update set name = excluded.name`;
    this.knownAtMs.push(systemMs());
  }

  /** Returns the states that may be served by what knows everything that had committed by a time. */
  allowedFrom(asOfMs: number): string[] {
    const last = this.knownAtMs.findLastIndex((knownAtMs) => knownAtMs < asOfMs);
    return this.states.slice(Math.max(0, last));
  }
}

/** Result of a load, as it may lie in any cache for any time. */
interface Cached {
  label: number;
  history: string;
  state: string;
}

/** What an instance knows of the log. */
class Instance {
  readonly window = new Window();
  applied: Applied | undefined;
  asOfMs = -Infinity;
  readonly #database: FreshDatabase;
  readonly #postgres: Postgres;

  constructor(database: FreshDatabase) {
    this.#database = database;
    const open = () =>
      openDatabase(database.url, 2, { kind: 'serve', statementTimeoutMs: 100_000, pooled: false });
    this.#postgres = new Postgres(open, { connections: 2, queueLimit: 100, timeoutMs: 100_000 }, () => {});
    closeAtEnd('a client of PostgreSQL', () => this.#postgres.close());
  }

  async follow(): Promise<void> {
    const follower = new LogFollower({
      open: () => openDatabase(this.#database.url, 1, { kind: 'follow', pooled: false }),
      onHistory: ({ history, position }) => {
        this.applied = { history, position };
        this.asOfMs = -Infinity;
        this.window.beginHistory(position);
      },
      onNews: ({ rows, asOfMs, place }) => {
        for (const row of rows) raiseWindow(this.window, row);
        if (place) this.applied = { ...this.applied!, position: place.position };
        if (asOfMs !== undefined) this.asOfMs = asOfMs;
      },
      onLearned: (rows, floor) => {
        for (const row of rows) raiseWindow(this.window, row);
        this.window.lowerFloor(floor);
      },
      onRestart: () => {},
      onSequenced: () => {},
      onReachable: () => {},
      maxAgeMs: 3_600_000,
      metrics: new Metrics(),
      events: new Proxy({} as never, { get: () => () => {} }),
    });
    closeAtEnd('a follower', () => follower.stop());
    await follower.start();
  }

  /** Loads hotels by their ids or channel ids. */
  async load(by: 'id' | 'channel_id', keys: string[]): Promise<Map<string, Cached>> {
    const text = `select ${by} as key, name from hotels where ${by} = any($1::text[])`;
    const read = await readLabelled<{ key: string; name: string }>(this.#postgres, () => this.applied, text, [
      keys,
    ]);
    const found = new Map<string, Cached>();
    if (!read) return found;
    const { history } = this.applied!;
    for (const key of keys) {
      const row = read.rows.find((each) => each.key === key);
      found.set(key, { label: read.label, history, state: row?.name ?? 'absent' });
    }
    return found;
  }
}

it('what an instance may serve is never older than what had committed when it was current', async () => {
  const database = await freshDatabase();
  await sequence(database.sql);
  const hotels = Array.from({ length: HOTELS }, (_, i) => new Written(i));
  const instances = [new Instance(database), new Instance(database)];
  await instances[0]!.follow();
  /** everything that was ever loaded, by anybody, in no order */
  const cached = new Map<string, Cached[]>();
  let writing = HOTELS;
  const served = { hits: 0, misses: 0 };

  const write = async (hotel: Written, seed: number) => {
    const sql = session(database.ownerUrl);
    for (let i = 0; i < CHANGES_OF_EACH; i++) {
      await hotel.change(sql, (i + seed) % 4 === 3 ? null : `name ${i}`);
      if (seed === 0 && i === 40)
        await sql`insert into hotels (id, name) select 'large-' || n, 'Hotel' from generate_series(1, ${LARGE}::integer) as n`;
      // a second instance starts among changes, and learns backwards
      if (seed === 1 && i === 60) await instances[1]!.follow();
      if (seed === 2 && i === 80) await sql`select hotel_api_invalidate()`;
    }
    writing--;
  };
  const load = async (instance: Instance) => {
    for (let i = 0; writing > 0; i++) {
      if (!instance.applied) {
        await turn();
        continue;
      }
      const found =
        i % 2 === 0
          ? await instance.load(
              'id',
              hotels.map(({ id }) => id),
            )
          : await instance.load(
              'channel_id',
              hotels.map(({ channel }) => channel),
            );
      for (const [key, entry] of found) cached.set(key, [...(cached.get(key) ?? []).slice(-50), entry]);
    }
  };
  const serve = async () => {
    while (writing > 0) {
      await turn();
      for (const { window, applied, asOfMs } of instances)
        for (const hotel of hotels)
          for (const [namespace, key] of [
            ['id', hotel.id],
            ['channel', hotel.channel],
          ] as const)
            for (const { label, history, state } of cached.get(key) ?? []) {
              // a hotel found by its channel id is valid by its id
              const [name, ofName] =
                state === 'absent' ? ([namespace, key] as const) : (['id', hotel.id] as const);
              const isHit = history === applied?.history && window.covers(name, ofName, label);
              served[isHit ? 'hits' : 'misses']++;
              if (!isHit) continue;
              const allowed = hotel.allowedFrom(asOfMs);
              if (!allowed.includes(state))
                throw new Error(
                  `${key} was served as ${state} with label ${label}, and is one of ${allowed.join(', ')}`,
                );
            }
    }
  };
  await Promise.all([...hotels.map(write), ...instances.map(load), serve()]);
  expect(served.hits).toBeGreaterThan(1_000);
  expect(served.misses).toBeGreaterThan(1_000);
  // at rest, the last load of each is used
  const [instance] = instances as [Instance, Instance];
  await expect
    .poll(async () => {
      const found = await instance.load(
        'id',
        hotels.map(({ id }) => id),
      );
      return hotels.every(({ id, states }) => {
        const { state, label } = found.get(id)!;
        return state === states.at(-1) && instance.window.covers('id', id, label);
      });
    })
    .toBe(true);
});

it('a label shows no position that its rows lack, whatever isolation a transaction has', async () => {
  const { sql, ownerUrl } = await freshDatabase();
  await sequence(sql);
  const [one, two] = [session(ownerUrl), session(ownerUrl)];
  const load = async (from: Sql) => {
    const [row] = await from<[{ label: number; ids: string[] }]>`
      select (select position from hotel_api_log order by position desc limit 1)::float8 as label,
        array(select id from hotels order by id) as ids`;
    return row;
  };
  await sql`insert into hotels (id, name) values ('one', 'Hotel')`;
  const first = await sequence(sql);
  // its snapshot stays, its label too
  await one.unsafe('begin isolation level repeatable read').simple();
  expect(await load(one)).toEqual({ label: first, ids: ['one'] });
  await sql`insert into hotels (id, name) values ('two', 'Hotel')`;
  // committed without a position: the label is too low, which costs a miss
  expect(await load(two)).toEqual({ label: first, ids: ['one', 'two'] });
  const second = await sequence(sql);
  expect(await load(one)).toEqual({ label: first, ids: ['one'] });
  expect(await load(two)).toEqual({ label: second, ids: ['one', 'two'] });
  // an insertion that waited behind a deletion of the same id
  await one`rollback`;
  await one`begin`;
  await one`delete from hotels where id = 'two'`;
  const waiting = two`insert into hotels (id, name) values ('two', 'Again')`.then(() => {});
  await one`commit`;
  await waiting;
  const third = await sequence(sql);
  expect(await load(two)).toEqual({ label: third, ids: ['one', 'two'] });
});
