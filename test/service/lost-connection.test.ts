import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { expect, it } from 'vitest';
import { readHotels } from '../../src/change-feed/changed-rows.ts';
import { Postgres } from '../../src/postgres/client.ts';
import { openDatabase, type Purpose } from '../../src/postgres/connect.ts';
import { freshDatabase } from '../support/database.ts';
import { insertHotels } from '../support/hotel.ts';
import { FaultProxy } from '../support/proxy.ts';

const CONNECTIONS = 20;
/** Ids of more than a kilobyte: such a query is written to the socket at once, also to one that is already dead. */
const IDS = Array.from({ length: 100 }, (_, i) => `a hotel whose id is long ${i}`);
const ROUNDS = 2;

/**
 * Resets the connections of `sql`, queries in each of the next event-loop iterations, and reconnects. In one
 * iteration an idle connection has received its error, but not its end. Returns the result of each iteration;
 * undefined for a failure.
 */
async function resultsDuringReset(
  sql: Sql,
  proxy: FaultProxy,
  ask: () => Promise<number>,
): Promise<(number | undefined)[]> {
  await Promise.all(Array.from({ length: CONNECTIONS }, ask));
  proxy.reset();
  const asked: Promise<number | undefined>[] = [];
  for (let iteration = 0; iteration < 8; iteration++) {
    await nextTurn();
    asked.push(ask().catch(() => undefined));
  }
  await sleep(50);
  const anew = Array.from({ length: 2 * CONNECTIONS }, () => sql`select pg_sleep(0.1)`.catch(() => {}));
  await Promise.all(anew);
  return Promise.all(asked);
}

async function opened(purpose: Purpose) {
  const { sql: owner, url } = await freshDatabase();
  await insertHotels(
    owner,
    IDS.map((id) => ({ id })),
  );
  const proxy = await FaultProxy.before(url);
  return { proxy, sql: openDatabase(proxy.url, CONNECTIONS, purpose) };
}

it('a query of a worker on a lost connection fails, and never yields an empty result', async () => {
  const { proxy, sql } = await opened({ kind: 'serve', statementTimeoutMs: 5_000, pooled: false });
  const limits = { connections: 2 * CONNECTIONS, queueLimit: 1_000, timeoutMs: 5_000 };
  for (let round = 0; round < ROUNDS; round++) {
    const postgres = new Postgres(
      () => sql,
      limits,
      () => {},
    );
    const ask = async () =>
      (await postgres.rows('select id, pg_sleep(0.02) from hotels where id = any($1::text[])', [IDS])).length;
    for (const found of await resultsDuringReset(sql, proxy, ask))
      expect([IDS.length, undefined]).toContain(found);
  }
  await sql.end({ timeout: 0 });
});

it('nor does a query of the invalidator for a comparison', async () => {
  const { proxy, sql } = await opened({ kind: 'invalidate', onClose: () => {} });
  const ask = async () => (await readHotels(sql, IDS)).size;
  for (let round = 0; round < ROUNDS; round++) {
    for (const found of await resultsDuringReset(sql, proxy, ask))
      expect([IDS.length, undefined]).toContain(found);
  }
  await sql.end({ timeout: 0 });
});
