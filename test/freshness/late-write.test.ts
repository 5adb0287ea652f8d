import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, it } from 'vitest';
import { MAX_READ_AGE_MS } from '../../src/change-feed/conflicts.ts';
import { readPosition } from '../../src/change-feed/history.ts';
import type { Term } from '../../src/change-feed/term.ts';
import { readEntry } from '../../src/hotels/entry.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { type FreshDatabase, type FreshRedis, freshDatabase, freshRedis } from '../support/database.ts';
import { needs } from '../support/needs.ts';
import { untilBlocked } from '../support/postgres-client.ts';
import { beginTerm, openStores } from '../support/terms.ts';

await needs('redis');

let database: FreshDatabase;
let redisDatabase: FreshRedis;

beforeAll(async () => {
  [database, redisDatabase] = await Promise.all([freshDatabase(), freshRedis()]);
});

/** Begins a term after the marker in Redis. It waits for `drained` after it has read changes. */
async function begin(drained: () => Promise<void>): Promise<Term> {
  const stores = await openStores(redisDatabase.url);
  const sql = openDatabase(database.url, 1, { kind: 'invalidate', onClose: () => {} });
  closeAtEnd('connections of a term', async () => {
    stores.redis.close();
    await sql.end({ timeout: 0 });
  });
  const unsafe = (text: string, ...rest: never[]) => {
    const query = sql.unsafe(text, ...rest);
    if (!text.includes('hotel_api_drain')) return query;
    const simple = async () => {
      const rows = await query.simple();
      await drained();
      return rows;
    };
    return { simple };
  };
  const session = new Proxy(sql, {
    get: (target, name) => (name === 'unsafe' ? unsafe : Reflect.get(target, name)),
  });
  const [marker] = await redisDatabase.client.keys('*:marker');
  return beginTerm(session, stores, marker === undefined ? null : await redisDatabase.client.get(marker));
}

async function nameInRedis(): Promise<string | undefined> {
  const { generation } = await readPosition(database.sql);
  const bytes = await redisDatabase.client.getBuffer(`${generation}:h:h1`);
  const entry = bytes && readEntry(bytes, 0, bytes.length);
  return entry?.present ? JSON.parse(entry.body('full').toString()).name : undefined;
}

/**
 * A transaction inserts the hotel while another changes and deletes it. The inserted row is newer and has the smaller
 * version. A term reads the deletion and stops; a later term stores the row; then the first term continues.
 */
it('a term that continues after a stop does not store a deletion over a later row', async () => {
  const { sql } = database;
  let stop = async () => {};
  const stopped = await begin(() => stop());
  // it begins a generation, because Redis is empty
  await stopped.deliver();
  await sql`insert into hotels (id, name) values ('h1', 'v1')`;
  while ((await stopped.deliver()) > 0);
  expect(await nameInRedis()).toBe('v1');

  const [remover, inserter] = await Promise.all([sql.reserve(), sql.reserve()]);
  const change = `update hotels set name = 'v2' where id = 'h1'`;
  await remover.unsafe(`begin; ${change}`).simple();
  const inserted = inserter.unsafe(`begin; insert into hotels (id, name) values ('h1', 'v3')`).simple();
  inserted.catch(() => {});
  await untilBlocked(sql);
  await remover.unsafe(`${change}; delete from hotels where id = 'h1'; commit`).simple();
  await inserted;
  remover.release();

  stop = async () => {
    const since = performance.now();
    await inserter`commit`;
    inserter.release();
    // PostgreSQL ends the session of a stopped process
    const present = async () =>
      (
        await sql`
          select from pg_stat_activity
          where datname = ${database.name} and application_name = 'hotel-api invalidate'`
      ).length;
    await expect.poll(present).toBe(0);
    const later = await begin(async () => {});
    while ((await later.deliver()) > 0);
    expect(await nameInRedis()).toBe('v3');
    await sleep(MAX_READ_AGE_MS - (performance.now() - since));
  };
  await expect(stopped.deliver()).rejects.toThrow();
  expect(await nameInRedis()).toBe('v3');
});
