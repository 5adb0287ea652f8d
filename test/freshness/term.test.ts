import type { Sql } from 'postgres';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { RedisKeyCache } from '../../src/auth/redis-key-cache.ts';
import { hotel } from '../../src/cache/arena/arena.fixture.ts';
import { RedisHotelCache } from '../../src/cache/redis-hotel-cache.ts';
import { NOTHING_RECEIVED, readPosition } from '../../src/change-feed/history.ts';
import { Reconciler } from '../../src/change-feed/reconciler.ts';
import type { RedisStores } from '../../src/change-feed/redis-writer.ts';
import { Term } from '../../src/change-feed/term.ts';
import { MacSecret } from '../../src/lib/mac.ts';
import { Events } from '../../src/observability/events.ts';
import { openLog } from '../../src/observability/log.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { Redis } from '../../src/redis/client.ts';
import { type FreshDatabase, type FreshRedis, freshDatabase, freshRedis } from '../support/database.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { FaultProxy } from '../support/proxy.ts';

await needs('redis');

const SHARING = { ttlMs: 600_000, absentTtlMs: 60_000, onInvalidValue: () => {} };
/** As the primary opens it for the invalidator. */
const REDIS_TIMEOUT_MS = 500;
/** More than the table ever said. */
const TOO_LARGE_VERSION = 2 ** 51;

let database: FreshDatabase;
let redisDatabase: FreshRedis;
let toRedis: FaultProxy & { url: string };
let session: Sql;
let stores: RedisStores & { redis: Redis };
let term: Term;
let id: string;
let n = 0;

beforeAll(async () => {
  [database, redisDatabase] = [await freshDatabase(), await freshRedis()];
  toRedis = await FaultProxy.before(redisDatabase.url);
});
/** A term has begun on a session as the invalidator has it, and has told of a hotel. */
beforeEach(async () => {
  const redis = new Redis(toRedis.url, REDIS_TIMEOUT_MS, () => {});
  await redis.connected(1_000);
  stores = {
    redis,
    hotels: new RedisHotelCache(redis, SHARING),
    keys: new RedisKeyCache(redis, SHARING, new MacSecret()),
  };
  session = openSession();
  term = await Term.begin(
    session,
    stores,
    null,
    NOTHING_RECEIVED,
    new Metrics(),
    new Events(openLog('silent', 'test')),
  );
  id = `h${++n}`;
  await database.sql`insert into hotels (id, name) values (${id}, 'v1')`;
  expect(await term.deliver()).toBe(1);
});
afterEach(async () => {
  await toRedis.heal();
  stores.redis.close();
  await session.end();
});

const openSession = () => openDatabase(database.url, 1, { kind: 'invalidate', onClose: () => {} });
const backend = async () => (await session`select pg_backend_pid() as pid`)[0]!.pid;
const generation = async () => (await readPosition(database.sql)).generation;
const change = () => database.sql`update hotels set name = 'v2' where id = ${id}`;

/** Redis holds a version of the hotel that the table never had. */
async function overstate(): Promise<void> {
  const name = `${await generation()}:h:${id}`;
  await redisDatabase.client.set(name, hotel({ id, version: TOO_LARGE_VERSION }).bytes);
}

/** Something befalls Redis, or the term, once, just before it asks Redis for this; `replace`: of newer versions. */
function justBefore(asked: 'replace' | 'walk', befall: () => unknown): void {
  const { hotels } = stores;
  let isDue = true;
  const befallOnce = async () => {
    const wasDue = isDue;
    isDue = false;
    if (wasDue) await befall();
  };
  const [fill, walk] = [hotels.fill.bind(hotels), hotels.walk.bind(hotels)];
  hotels.fill = async (entries, over) => {
    if (asked === 'replace' && over) await befallOnce();
    return fill(entries, over);
  };
  hotels.walk = async (cursor) => {
    if (asked === 'walk') await befallOnce();
    return walk(cursor);
  };
}

describe('a term outlives', () => {
  it('a Redis that stops to answer in the middle of a comparison', async () => {
    const before = await backend();
    justBefore('walk', () => toRedis.blackout());
    await term.reconcile();
    await term.deliver(true);
    expect(await backend()).toBe(before);
  });

  it('one that takes a correction slowly: it is given up', async () => {
    const before = [await backend(), await generation()];
    await overstate();
    // 900 ms there and back
    justBefore('replace', () => toRedis.delay(450));
    await term.reconcile();
    expect(await backend()).toBe(before[0]);
    expect(await generation()).not.toBe(before[1]);
  });

  it('a table that is locked: what cannot be compared is compared later', async () => {
    await overstate();
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
  /** Runs while a TRUNCATE of the table waits, which no reader gets past; `write` was committed just before. */
  async function whileLocked(table: string, write: (sql: Sql) => Promise<unknown>, run: () => Promise<void>) {
    const [writer, reader, truncating] = await Promise.all([
      database.sql.reserve(),
      database.sql.reserve(),
      database.sql.reserve(),
    ]);
    await reader.unsafe(`begin; lock table ${table} in access share mode`).simple();
    await writer`begin`;
    await write(writer);
    const [{ pid }] = await truncating<[{ pid: number }]>`select pg_backend_pid() as pid`;
    const truncated = truncating.unsafe(`begin; truncate ${table}; rollback`).simple();
    truncated.catch(() => {});
    const waits = async () =>
      (await database.sql`select from pg_locks where pid = ${pid} and not granted`).length;
    await expect.poll(waits).toBe(1);
    await writer`commit`;
    try {
      await run();
    } finally {
      await reader`rollback`;
      await truncated;
      for (const sql of [writer, reader, truncating]) sql.release();
    }
  }

  it('of the hotels is told, and withdrawn from Redis', async () => {
    const before = [await backend(), await generation()];
    await whileLocked(
      'hotels',
      (sql) => sql`update hotels set name = 'v2' where id = ${id}`,
      async () => {
        expect(await term.deliver()).toBe(1);
        expect([await backend(), await generation()]).toEqual(before);
        expect((await stores.hotels.held([id]))[0]!.isTombstone).toBe(true);
      },
    );
  });

  it('of the keys is told, and Redis is given up', async () => {
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

describe('Redis cache invalidated', () => {
  it('where it refuses the truth and then stops to answer', async () => {
    const before = [await backend(), await generation()];
    await overstate();
    await change();
    justBefore('replace', () => toRedis.blackout());
    expect(await term.deliver()).toBe(1);
    expect(await backend()).toBe(before[0]);
    expect(await generation()).not.toBe(before[1]);
  });

  it('and where it takes it after all it is not', async () => {
    const before = await generation();
    await overstate();
    await change();
    expect(await term.deliver()).toBe(1);
    expect(await generation()).toBe(before);
    const [held] = await stores.hotels.held([id]);
    expect(held!.version).toBeLessThan(TOO_LARGE_VERSION);
  });
});

describe('a term that ends between its write to Redis and its commit', () => {
  const signKey = async () => (await redisDatabase.client.keys('*:beat'))[0]!;
  const sign = async () => (await redisDatabase.client.get(await signKey()))!;
  /** What the term told of last; then it has written a change, and nobody has heard of it. */
  async function cutShort(): Promise<string> {
    const announced = await sign();
    await change();
    const { redis } = stores;
    const mark = redis.mark.bind(redis);
    redis.mark = async (...what) => {
      const kept = await mark(...what);
      // with a bound, so that it waits for the end
      await database.sql`select pg_terminate_backend(${pid}, 60000)`;
      return kept;
    };
    const pid = await backend();
    await expect(term.deliver()).rejects.toThrow();
    redis.mark = mark;
    await session.end({ timeout: 0 });
    session = openSession();
    return announced;
  }
  const follow = (announced: string) =>
    Term.begin(
      session,
      stores,
      announced,
      NOTHING_RECEIVED,
      new Metrics(),
      new Events(openLog('silent', 'test')),
    );

  it('is followed by one that takes what Redis holds for whole, and tells of the change', async () => {
    const before = await generation();
    const announced = await cutShort();
    expect(await sign()).not.toBe(announced);
    expect(await (await follow(announced)).deliver()).toBe(1);
    expect(await generation()).toBe(before);
    const [held] = await stores.hotels.held([id]);
    expect(held!.body('full').toString()).toContain('"name":"v2"');
  });

  it.each([
    ['an older sign', (announced: string) => announced.replace(/\d+$/, (count) => String(Number(count) - 1))],
    ['the sign of another term', (announced: string) => announced.replace(/^[^:]+/, 'another')],
  ])('but not where %s is found', async (_, instead) => {
    const before = await generation();
    const announced = await cutShort();
    await redisDatabase.client.set(await signKey(), instead(announced));
    expect(await (await follow(announced)).deliver()).toBe(1);
    expect(await generation()).not.toBe(before);
  });
});

describe('a term that is stopped while it replaces what Redis holds', () => {
  const nameHeld = async () => (await stores.hotels.held([id]))[0]!.body('full').toString();

  it.each([
    ['in the place of what refused a change', async () => void (await change()), () => term.deliver()],
    ['in the place of what a comparison found', async () => {}, () => term.reconcile()],
  ])('%s leaves what a later term wrote', async (_, before, work) => {
    const inForce = await generation();
    await overstate();
    await before();
    justBefore('replace', async () => {
      const marker = (await redisDatabase.client.keys('*:beat'))[0]!;
      const announced = await redisDatabase.client.get(marker);
      await database.sql`select pg_terminate_backend(${pid}, 60000)`;
      await database.sql`update hotels set name = 'v3' where id = ${id}`;
      const later = openSession();
      const redis = new Redis(redisDatabase.url, REDIS_TIMEOUT_MS, () => {});
      await redis.connected(1_000);
      const hotels = new RedisHotelCache(redis, SHARING);
      const keys = new RedisKeyCache(redis, SHARING, new MacSecret());
      const events = new Events(openLog('silent', 'test'));
      const next = await Term.begin(
        later,
        { redis, hotels, keys },
        announced,
        NOTHING_RECEIVED,
        new Metrics(),
        events,
      );
      while ((await next.deliver()) > 0);
      redis.close();
      await later.end();
      expect(await nameHeld()).toContain('"name":"v3"');
    });
    const pid = await backend();
    await expect(work()).rejects.toThrow();
    expect(await generation()).toBe(inForce);
    expect(await nameHeld()).toContain('"name":"v3"');
    await session.end({ timeout: 0 });
    session = openSession();
  });
});

describe('comparing', () => {
  it('waits while Redis is away', async () => {
    let walks = 0;
    justBefore('walk', () => walks++);
    toRedis.blackout();
    await term.deliver(true);
    await term.reconcile();
    expect(walks).toBe(0);
  });

  it('goes on where it was when Redis did not answer', async () => {
    const names = Array.from({ length: 3_000 }, (_, i) => [`other:${i}`, '']);
    await redisDatabase.client.mset(...names.flat());
    const cursors: string[] = [];
    const walk = stores.hotels.walk.bind(stores.hotels);
    stores.hotels.walk = (cursor) => {
      cursors.push(cursor);
      return walk(cursor);
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
