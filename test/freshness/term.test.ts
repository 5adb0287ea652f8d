import type { Sql } from 'postgres';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { hotel } from '../../src/cache/arena/arena.fixture.ts';
import { readPosition } from '../../src/change-feed/history.ts';
import { Reconciler } from '../../src/change-feed/reconciler.ts';
import type { Term } from '../../src/change-feed/term.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { type FreshDatabase, type FreshRedis, freshDatabase, freshRedis } from '../support/database.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { untilBlocked } from '../support/postgres-client.ts';
import { FaultProxy } from '../support/proxy.ts';
import { beginTerm, openStores, type TermStores } from '../support/terms.ts';

await needs('redis');

/** Larger than any version in the table. */
const TOO_LARGE_VERSION = 2 ** 51;

let database: FreshDatabase;
let redisDatabase: FreshRedis;
let toRedis: FaultProxy;
let session: Sql;
let stores: TermStores;
let term: Term;
let id: string;
let n = 0;

beforeAll(async () => {
  [database, redisDatabase] = [await freshDatabase(), await freshRedis()];
  toRedis = await FaultProxy.before(redisDatabase.url);
});
/** Begins a term on a session like that of the invalidator, which has announced a hotel. */
beforeEach(async () => {
  stores = await openStores(toRedis.url);
  session = await openSession();
  term = await beginTerm(session, stores, null);
  id = `h${++n}`;
  await database.sql`insert into hotels (id, name) values (${id}, 'v1')`;
  expect(await term.deliver()).toBe(1);
});
afterEach(async () => {
  await toRedis.heal();
  stores.redis.close();
  await session.end();
});

/** Opens a session as the primary does for the invalidator; it does not end when the test is held up. */
async function openSession(): Promise<Sql> {
  const sql = openDatabase(database.url, 1, { kind: 'invalidate', onClose: () => {} });
  await sql`select set_config(name, '0', false)
    from unnest(array['idle_session_timeout', 'idle_in_transaction_session_timeout']) as name`;
  return sql;
}
const backend = async () => (await session`select pg_backend_pid() as pid`)[0]!.pid;
const generation = async () => (await readPosition(database.sql)).generation;
const change = () => database.sql`update hotels set name = 'v2' where id = ${id}`;

/** Writes a version of the hotel to Redis that the table never had. */
async function writeTooLargeVersion(): Promise<void> {
  const name = `${await generation()}:h:${id}`;
  await redisDatabase.client.set(name, hotel({ id, version: TOO_LARGE_VERSION }).bytes);
}

/** Injects a fault once, before the next replacement of newer versions in Redis, or the next scan. */
function justBefore(command: 'replace' | 'scan', fault: () => unknown): void {
  const { hotels } = stores;
  let isDue = true;
  const faultOnce = async () => {
    const wasDue = isDue;
    isDue = false;
    if (wasDue) await fault();
  };
  const [fill, scan] = [hotels.fill.bind(hotels), hotels.scan.bind(hotels)];
  hotels.fill = async (entries, over) => {
    if (command === 'replace' && over) await faultOnce();
    return fill(entries, over);
  };
  hotels.scan = async (cursor) => {
    if (command === 'scan') await faultOnce();
    return scan(cursor);
  };
}

describe('a term survives', () => {
  it('a Redis that stops responding in the middle of a reconciliation', async () => {
    const before = await backend();
    justBefore('scan', () => toRedis.blackout());
    await term.reconcile();
    await term.deliver(true);
    expect(await backend()).toBe(before);
  });

  it('a Redis that is slow to correct: the correction times out', async () => {
    const before = [await backend(), await generation()];
    await writeTooLargeVersion();
    // 900 ms there and back
    justBefore('replace', () => toRedis.delay(450));
    await term.reconcile();
    expect(await backend()).toBe(before[0]);
    expect(await generation()).not.toBe(before[1]);
  });

  it('a locked table: the reconciliation is postponed', async () => {
    await writeTooLargeVersion();
    const before = await backend();
    await database.sql.begin(async (sql) => {
      await sql`lock table hotels`;
      await term.reconcile();
      await term.deliver(true);
    });
    expect(await backend()).toBe(before);
  });
});

describe('a change before a TRUNCATE that waits for another session', () => {
  /** Runs `work` while a TRUNCATE of the table waits, which blocks all readers; `write` was committed just before. */
  async function whileLocked(table: string, write: (sql: Sql) => Promise<unknown>, run: () => Promise<void>) {
    const [writer, reader, truncating] = await Promise.all([
      database.sql.reserve(),
      database.sql.reserve(),
      database.sql.reserve(),
    ]);
    await reader.unsafe(`begin; lock table ${table} in access share mode`).simple();
    await writer`begin`;
    await write(writer);
    const truncated = truncating.unsafe(`begin; truncate ${table}; rollback`).simple();
    truncated.catch(() => {});
    await untilBlocked(database.sql);
    await writer`commit`;
    try {
      await run();
    } finally {
      await reader`rollback`;
      await truncated;
      for (const sql of [writer, reader, truncating]) sql.release();
    }
  }

  it('of hotels is announced, and removed from Redis', async () => {
    const before = [await backend(), await generation()];
    await whileLocked(
      'hotels',
      (sql) => sql`update hotels set name = 'v2' where id = ${id}`,
      async () => {
        expect(await term.deliver()).toBe(1);
        expect([await backend(), await generation()]).toEqual(before);
        expect((await stores.hotels.entriesAndTombstones([id]))[0]!.isTombstone).toBe(true);
      },
    );
  });

  it('of keys is announced, and the values in Redis are dropped', async () => {
    const key = await insertKey(database.sql, []);
    expect(await term.deliver()).toBe(1);
    const before = [await backend(), await generation()];
    const sha256 = hashOf(key);
    expect((await stores.keys.read(sha256))!.record).not.toBeNull();
    await whileLocked(
      'api_keys',
      (sql) => sql`update api_keys set revoked_at = now()`,
      async () => {
        // of an UPDATE the rows before and after are in the queue
        expect(await term.deliver()).toBe(2);
        expect(await backend()).toBe(before[0]);
        expect(await generation()).not.toBe(before[1]);
        expect(await stores.keys.read(sha256)).toBeUndefined();
      },
    );
  });
});

describe('a new generation begins', () => {
  it('if Redis rejects a value and then stops responding', async () => {
    const before = [await backend(), await generation()];
    await writeTooLargeVersion();
    await change();
    justBefore('replace', () => toRedis.blackout());
    expect(await term.deliver()).toBe(1);
    expect(await backend()).toBe(before[0]);
    expect(await generation()).not.toBe(before[1]);
  });

  it('but not if it accepts the value later', async () => {
    const before = await generation();
    await writeTooLargeVersion();
    await change();
    expect(await term.deliver()).toBe(1);
    expect(await generation()).toBe(before);
    const [held] = await stores.hotels.entriesAndTombstones([id]);
    expect(held!.version).toBeLessThan(TOO_LARGE_VERSION);
  });
});

describe('a term that ends between its write to Redis and its commit', () => {
  const markerKey = async () => (await redisDatabase.client.keys('*:marker'))[0]!;
  const sign = async () => (await redisDatabase.client.get(await markerKey()))!;
  /** Position of the term's last announcement, before it wrote a change that no worker received. */
  async function endBeforeCommit(): Promise<string> {
    const announced = await sign();
    await change();
    const { redis } = stores;
    const mark = redis.mark.bind(redis);
    redis.mark = async (...what) => {
      const kept = await mark(...what);
      // with a limit, so that it waits for the end
      await database.sql`select pg_terminate_backend(${pid}, 60000)`;
      return kept;
    };
    const pid = await backend();
    await expect(term.deliver()).rejects.toThrow();
    redis.mark = mark;
    await session.end({ timeout: 0 });
    session = await openSession();
    return announced;
  }
  const follow = (announced: string) => beginTerm(session, stores, announced);

  it('is followed by one that accepts the content of Redis as complete, and announces the change', async () => {
    const before = await generation();
    const announced = await endBeforeCommit();
    expect(await sign()).not.toBe(announced);
    expect(await (await follow(announced)).deliver()).toBe(1);
    expect(await generation()).toBe(before);
    const [held] = await stores.hotels.entriesAndTombstones([id]);
    expect(held!.body('full').toString()).toContain('"name":"v2"');
  });

  it.each([
    [
      'an older marker',
      (announced: string) => announced.replace(/\d+$/, (count) => String(Number(count) - 1)),
    ],
    ['the marker of another term', (announced: string) => announced.replace(/^[^:]+/, 'another')],
  ])('but not if %s is found', async (_, instead) => {
    const before = await generation();
    const announced = await endBeforeCommit();
    await redisDatabase.client.set(await markerKey(), instead(announced));
    expect(await (await follow(announced)).deliver()).toBe(1);
    expect(await generation()).not.toBe(before);
  });
});

describe('a term that ends while it replaces values in Redis', () => {
  const nameHeld = async () => (await stores.hotels.entriesAndTombstones([id]))[0]!.body('full').toString();

  it.each([
    [
      'that replaces a value whose write was rejected',
      async () => void (await change()),
      () => term.deliver(),
    ],
    ['that replaces a value found by reconciliation', async () => {}, () => term.reconcile()],
  ])('%s leaves the values of a later term', async (_, before, work) => {
    const inForce = await generation();
    await writeTooLargeVersion();
    await before();
    justBefore('replace', async () => {
      const marker = (await redisDatabase.client.keys('*:marker'))[0]!;
      const announced = await redisDatabase.client.get(marker);
      await database.sql`select pg_terminate_backend(${pid}, 60000)`;
      await database.sql`update hotels set name = 'v3' where id = ${id}`;
      const later = await openSession();
      const ownStores = await openStores(redisDatabase.url);
      const next = await beginTerm(later, ownStores, announced);
      while ((await next.deliver()) > 0);
      ownStores.redis.close();
      await later.end();
      expect(await nameHeld()).toContain('"name":"v3"');
    });
    const pid = await backend();
    await expect(work()).rejects.toThrow();
    expect(await generation()).toBe(inForce);
    expect(await nameHeld()).toContain('"name":"v3"');
    await session.end({ timeout: 0 });
    session = await openSession();
  });
});

it('a term prunes the change log and continues', async () => {
  // the first pruning is due immediately
  const random = vi.spyOn(Math, 'random').mockReturnValue(0);
  const metrics = new Metrics();
  const pruning = await beginTerm(session, stores, null, metrics).finally(() => random.mockRestore());
  await database.sql`update hotel_api_change_log set changed_at = now() - interval '32 days'`;
  const { count } = await database.sql`select from hotel_api_change_log`;
  expect(count).toBeGreaterThan(0);
  await pruning.keepLog();
  expect(await database.sql`select from hotel_api_change_log`).toHaveLength(0);
  expect(await metrics.registry.getSingleMetricAsString('hotel_api_change_log_pruned_total')).toContain(
    `hotel_api_change_log_pruned_total ${count}`,
  );
  await change();
  expect(await pruning.deliver()).toBe(1);
});

describe('reconciliation', () => {
  it('waits while Redis is unavailable', async () => {
    let scans = 0;
    justBefore('scan', () => scans++);
    toRedis.blackout();
    await term.deliver(true);
    await term.reconcile();
    expect(scans).toBe(0);
  });

  it('continues where it was when Redis did not respond', async () => {
    const names = Array.from({ length: 3_000 }, (_, i) => [`other:${i}`, '']);
    await redisDatabase.client.mset(...names.flat());
    const cursors: string[] = [];
    const scan = stores.hotels.scan.bind(stores.hotels);
    stores.hotels.scan = (cursor) => {
      cursors.push(cursor);
      return scan(cursor);
    };
    const reconciler = new Reconciler(stores);
    await reconciler.step(database.sql);
    toRedis.blackout();
    await reconciler.step(database.sql);
    await toRedis.heal();
    await reconciler.step(database.sql);
    const [first, second, third] = cursors;
    expect(first).toBe('0');
    expect(second).not.toBe('0');
    expect(third).toBe(second);
  });
});
