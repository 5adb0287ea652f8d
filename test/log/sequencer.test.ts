import { array, assert, asyncProperty, constantFrom, integer, record } from 'fast-check';
import type { Sql } from 'postgres';
import { expect, it } from 'vitest';
import { ownPostgres } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { freshLog, idsAfter, insertHotels, logAfter, sequence, sequenceAll, stateOf } from './sequenced.ts';

const WRITERS = 5;
const RACED_TRANSACTIONS = 60;

/** Server whose transactions can be prepared. */
const { ownerUrl } = await ownPostgres(40, undefined, { max_prepared_transactions: '20' });
const session = () => postgresClient(ownerUrl);
const writers = Array.from({ length: WRITERS }, session);
const [first, second, reader] = [session(), session(), session()];

/** Hotels and the newest position of one snapshot. */
interface Load {
  label: number;
  ids: Set<string>;
}

async function load(sql: Sql): Promise<Load> {
  const [row] = await sql<[{ label: number; ids: string[] }]>`
    select label.position::float8 as label, array(select id from hotels) as ids
    from (select position from hotel_api_log order by position desc limit 1) as label`;
  return { label: row.label, ids: new Set(row.ids) };
}

/** Asserts that each committed id has one position, and that no load lacks what its label promises. */
async function expectOnce(from: number, committed: readonly string[], loads: readonly Load[]): Promise<void> {
  const changes = (await logAfter(first, from)).filter(({ kind }) => kind === 'hotels');
  expect(changes.map(({ id }) => id).sort()).toEqual([...committed].sort());
  expect(new Set(changes.map(({ position }) => position)).size).toBe(changes.length);
  // an assertion for each takes longer than all of PostgreSQL's work
  for (const { label, ids } of loads)
    expect(changes.filter(({ id, position }) => position <= label && !ids.has(id!))).toEqual([]);
}

const STEPS = ['write', 'savepoint', 'undo', 'commit', 'rollback', 'prepare', 'finish'] as const;

/** A session that inserts hotels in transactions, as a schedule says. */
class Writer {
  static #created = 0;
  readonly #sql: Sql;
  readonly #name = `w${Writer.#created++}`;
  #made = 0;
  /** ids of the open transaction, by its savepoints; undefined: none is open */
  #open: string[][] | undefined;
  #prepared: string[] = [];
  readonly committed: string[] = [];

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  async step(what: (typeof STEPS)[number]): Promise<void> {
    const open = this.#open;
    if (what === 'write') {
      if (!open) await this.#sql`begin`;
      this.#open ??= [[]];
      const ids = [0, 1].map(() => `${this.#name}-${this.#made++}`);
      await insertHotels(this.#sql, ids);
      this.#open.at(-1)!.push(...ids);
    } else if (what === 'finish') {
      if (open || this.#prepared.length === 0) return;
      await this.#sql.unsafe(`commit prepared '${this.#name}'`);
      this.committed.push(...this.#prepared.splice(0));
    } else if (open && what === 'savepoint') {
      await this.#sql.unsafe(`savepoint s${open.length}`);
      open.push([]);
    } else if (open && what === 'undo' && open.length > 1) {
      await this.#sql.unsafe(`rollback to s${open.length - 1}; release s${open.length - 1}`).simple();
      open.pop();
    } else if (open && (what === 'commit' || what === 'rollback')) {
      await this.#sql.unsafe(what);
      if (what === 'commit') this.committed.push(...open.flat());
      this.#open = undefined;
    } else if (open && what === 'prepare' && this.#prepared.length === 0) {
      await this.#sql.unsafe(`prepare transaction '${this.#name}'`);
      this.#prepared = open.flat();
      this.#open = undefined;
    }
  }

  async end(): Promise<void> {
    await this.step('commit');
    await this.step('finish');
  }
}

const STEP = record({
  by: integer({ min: 0, max: WRITERS - 1 }),
  what: constantFrom('write', 'write', 'commit', ...STEPS),
  behind: constantFrom(...(['nothing', 'nothing', 'sequence', 'sequence twice', 'load', 'forget'] as const)),
});

it('each committed change gets one position, whatever the order of the transactions', async () => {
  await assert(
    asyncProperty(array(STEP, { minLength: 20, maxLength: 60 }), async (steps) => {
      const from = await sequence(first);
      const crew = writers.map((sql) => new Writer(sql));
      const loads: Load[] = [];
      const committed = () => crew.flatMap((writer) => writer.committed);
      try {
        for (const { by, what, behind } of steps) {
          await crew[by]!.step(what);
          if (behind === 'load') loads.push(await load(reader));
          else if (behind === 'sequence twice') await Promise.all([sequence(first), sequence(second)]);
          // a sequencer that ends before its transaction
          else if (behind === 'forget')
            await second.unsafe('begin; select hotel_api_sequence(); rollback').simple();
          else if (behind === 'sequence') {
            await sequence(first);
            await expectOnce(from, committed(), loads);
          }
        }
      } finally {
        for (const writer of crew) await writer.end();
      }
      await sequence(second);
      await expectOnce(from, committed(), loads);
    }),
    { numRuns: 60 },
  );
});

it('neither is lost nor given twice while writers, sequencers and loads race', async () => {
  const from = await sequence(first);
  const crew = writers.map((sql) => new Writer(sql));
  const loads: Load[] = [];
  let running = crew.length;
  const write = async (writer: Writer, seed: number) => {
    for (let i = 0; i < RACED_TRANSACTIONS; i++) {
      await writer.step('write');
      await writer.step('savepoint');
      await writer.step('write');
      if ((i + seed) % 3 === 0) await writer.step('undo');
      await writer.step((i * seed) % 5 === 4 ? 'rollback' : (i + seed) % 4 === 0 ? 'prepare' : 'commit');
      await writer.step('finish');
    }
    running--;
  };
  const whileRunning = async (work: () => Promise<unknown>) => {
    while (running > 0) await work();
  };
  await Promise.all([
    ...crew.map(write),
    whileRunning(() => sequence(first)),
    whileRunning(() => sequence(second)),
    whileRunning(async () => loads.push(await load(reader))),
  ]);
  await sequence(first);
  const committed = crew.flatMap((writer) => writer.committed);
  await expectOnce(from, committed, loads);
});

it('a sequencer needs a read committed transaction of its own', async () => {
  const { sql, ownerUrl: url, from } = await freshLog();
  const one = postgresClient(url);
  const { history, transaction } = await stateOf(sql);
  const begin = () => one`select hotel_api_begin_history(${history}, 1000000, ${transaction}::bigint)`;
  for (const isolation of ['repeatable read', 'serializable']) {
    // with its old snapshot it would append behind what another one has appended since
    await one.unsafe(`begin isolation level ${isolation}; select count(*) from hotels`).simple();
    await insertHotels(sql, [isolation]);
    await sequence(sql);
    await expect(sequence(one)).rejects.toThrow('read committed');
    await one`rollback`;
    await one.unsafe(`begin isolation level ${isolation}`);
    await expect(begin()).rejects.toThrow('read committed');
    await one`rollback`;
  }
  // its own transaction counts as finished: what it changes later would never be read
  await one`begin`;
  await insertHotels(one, ['own']);
  await expect(sequence(one)).rejects.toThrow('a read committed transaction of its own');
  await one`rollback`;
  await one`set default_transaction_isolation = 'serializable'`;
  await one.unsafe('begin isolation level read committed; select hotel_api_sequence(); commit').simple();
  expect(await idsAfter(sql, from)).toEqual(['repeatable read', 'serializable']);
  expect((await stateOf(sql)).history).toBe(history);
});

it('serializable writers are not failed by polls and sequencing', async () => {
  const { sql, ownerUrl: url, from } = await freshLog();
  const crew = Array.from({ length: 3 }, () => postgresClient(url));
  await Promise.all([
    ...crew.map(async (one, i) => {
      await one`set default_transaction_isolation = 'serializable'`;
      for (let n = 0; n < 20; n++) await insertHotels(one, [`serial-${i}-${n}`]);
    }),
    (async () => {
      for (let n = 0; n < 40; n++) await sequence(sql);
    })(),
  ]);
  await sequenceAll(sql);
  expect(await idsAfter(sql, from)).toHaveLength(60);
});

it('a transaction that has analyzed the database does not stop the sequencer', async () => {
  const { sql, ownerUrl: url, from } = await freshLog();
  await insertHotels(sql, ['one']);
  await postgresClient(url).unsafe('begin; analyze').simple();
  await sql`set lock_timeout = '1s'`;
  await sequence(sql);
  expect(await idsAfter(sql, from)).toEqual(['one']);
});
