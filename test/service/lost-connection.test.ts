import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Postgres } from '../../src/postgres/client.ts';
import { completed, openDatabase } from '../../src/postgres/connect.ts';
import { freshDatabase } from '../support/database.ts';
import { insertHotels } from '../support/hotel.ts';
import { FaultProxy } from '../support/proxy.ts';

const CONNECTIONS = 20;
/** Ids of more than a kilobyte: such a query is written to the socket at once, also to one that is already dead. */
const IDS = Array.from({ length: 100 }, (_, i) => `a hotel whose id is long ${i}`);
const ROUNDS = 2;

/**
 * Resets the connections, sends a query in each of the next event-loop iterations, and reconnects. In one iteration an idle
 * connection has received its error, but not its end. Returns the result of each iteration; undefined for a failure.
 */
async function resultsDuringReset(
  proxy: FaultProxy,
  send: () => Promise<number>,
  reconnect: () => PromiseLike<unknown>,
): Promise<(number | undefined)[]> {
  // connections that an earlier round lost fail the queries that find them
  const isOpen = async () => {
    const answers = await Promise.allSettled(Array.from({ length: CONNECTIONS }, send));
    return answers.every(({ status }) => status === 'fulfilled');
  };
  await expect.poll(isOpen).toBe(true);
  proxy.reset();
  const results: Promise<number | undefined>[] = [];
  for (let iteration = 0; iteration < 8; iteration++) {
    await nextTurn();
    results.push(send().catch(() => undefined));
  }
  await sleep(50);
  await Promise.all(
    Array.from({ length: 2 * CONNECTIONS }, async () => reconnect()).map((done) => done.catch(() => {})),
  );
  return Promise.all(results);
}

async function opened() {
  const { sql: owner, url } = await freshDatabase();
  await insertHotels(
    owner,
    IDS.map((id) => ({ id })),
  );
  return FaultProxy.before(url);
}

it('a query of a worker on a lost connection is repeated on another, and never yields an empty result', async () => {
  const proxy = await opened();
  const limits = { connections: 2 * CONNECTIONS, queueLimit: 1_000, timeoutMs: 5_000 };
  for (let round = 0; round < ROUNDS; round++) {
    const postgres = new Postgres(
      () => openDatabase(proxy.url, CONNECTIONS, { kind: 'serve', statementTimeoutMs: 5_000, pooled: false }),
      limits,
      () => {},
    );
    const send = async () =>
      (await postgres.rows('select id, pg_sleep(0.02) from hotels where id = any($1::text[])', [IDS])).length;
    const reconnect = () => postgres.rows('select pg_sleep(0.1)', []);
    expect(await resultsDuringReset(proxy, send, reconnect)).toEqual(Array(8).fill(IDS.length));
    await postgres.close();
  }
});

it('a query of the connection that follows the log fails, and never yields an empty result', async () => {
  const proxy = await opened();
  const sql = openDatabase(proxy.url, CONNECTIONS, { kind: 'follow', pooled: false });
  const send = async () => completed(await sql`select id from hotels where id = any(${IDS}::text[])`).length;
  for (let round = 0; round < ROUNDS; round++) {
    for (const found of await resultsDuringReset(proxy, send, () => sql`select pg_sleep(0.1)`))
      expect([IDS.length, undefined]).toContain(found);
  }
  await sql.end({ timeout: 0 });
});
