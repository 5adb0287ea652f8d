import type { Sql } from 'postgres';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { inTurn } from '../../src/cli/import/turn.ts';
import { type FreshDatabase, freshDatabase } from '../support/database.ts';
import { postgresClient } from '../support/postgres-client.ts';

let database: FreshDatabase;
/** a pool of one connection each, as two processes have them */
let first: Sql;
let second: Sql;
beforeAll(async () => {
  database = await freshDatabase();
  first = postgresClient(database.ownerUrl, { max: 1 });
  second = postgresClient(database.ownerUrl, { max: 1 });
});
beforeEach(async () => {
  await database.sql`update hotel_api_importer set import = null`;
});

const nothing = async () => {};
const fail = (other: string) => {
  throw new Error(other);
};
const tryTurn = () => inTurn(second, fail, async () => 'done');
const RUNS = /^\w+ from .* since 20.*, backend \d+$/;
/** Changes the time of the last transaction, as if that were how long ago. */
const pause = (time: string) =>
  database.sql`update hotel_api_importer set active_at = clock_timestamp() - ${time}::interval`;

test('an import has the turn from its first to its last transaction, over one connection', async () => {
  await inTurn(first, fail, async (inTransaction) => {
    await expect(tryTurn()).rejects.toThrow(RUNS);
    await inTransaction(async () => {
      await expect(tryTurn()).rejects.toThrow(RUNS);
    });
    await expect(tryTurn()).rejects.toThrow(RUNS);
  });
  expect(await tryTurn()).toBe('done');
});

test('a failed import ends its turn', async () => {
  const failing = inTurn(first, fail, (inTransaction) =>
    inTransaction(async (transaction) => void (await transaction`select 1 / 0`)),
  );
  await expect(failing).rejects.toThrow('division by zero');
  expect(await tryTurn()).toBe('done');
});

test('the turn of a killed import is free when its connection has ended', async () => {
  const killed = postgresClient(database.ownerUrl, { max: 1 });
  await inTurn(killed, fail, async () => {
    const [row] = await killed`select pg_backend_pid() as pid`;
    await killed.end();
    const gone = () => database.sql`select from pg_stat_activity where pid = ${row!.pid}`;
    await expect.poll(gone).toHaveLength(0);
    expect(await tryTurn()).toBe('done');
  });
});

test('if a pooler keeps its connection, the turn is free after a minute without a transaction', async () => {
  await inTurn(first, fail, async (inTransaction) => {
    await pause('59 seconds');
    await expect(tryTurn()).rejects.toThrow(RUNS);
    await pause('61 seconds');
    // a merge of an hour is one transaction
    await inTransaction(() => expect(tryTurn()).rejects.toThrow(RUNS));
    await pause('61 seconds');
    expect(await tryTurn()).toBe('done');
  });
});

test('an import whose turn another one has taken writes nothing more', async () => {
  await inTurn(first, fail, async (inTransaction) => {
    await inTransaction(nothing);
    await pause('61 seconds');
    await inTurn(second, fail, async (inOther) => {
      await inOther(nothing);
      await expect(inTransaction(nothing)).rejects.toThrow(/another import ran/);
    });
    await expect(inTransaction(nothing)).rejects.toThrow(/another import ran/);
  });
});
