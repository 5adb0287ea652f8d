import { setImmediate as nextTick } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { Unavailable } from '../errors.ts';
import type { Found } from '../hotels/entry.ts';
import { HotelSizes } from '../hotels/hotel-sizes.ts';
import type { Namespace } from '../hotels/namespace.ts';
import type { LoadedHotels } from '../hotels/repository.ts';
import { fakeClocks } from '../lib/clock.fixture.ts';
import { DAY_MS } from '../lib/clock.ts';
import { ABSENT, MISS } from '../wasm/constants.ts';
import { hotel, NOW_MS } from './arena/arena.fixture.ts';
import { HotelReader } from './hotel-reader.ts';
import { openRedisBatch } from './redis-batch/redis-batch.fixture.ts';

/** Position at which hotels are read before any change of a test, and that of the change. */
const BEFORE = 10;
const CHANGE = 20;

type Fields = Parameters<typeof hotel>[0];

/** PostgreSQL: each query reads its rows at once, and answers when it is released. */
class FakeRepository {
  rows: Fields[] = [];
  position = BEFORE;
  history = 'first';
  queries: string[] = [];
  #held: PromiseWithResolvers<void> | undefined;

  hold(): void {
    this.#held = Promise.withResolvers();
  }
  release(): void {
    this.#held?.resolve();
    this.#held = undefined;
  }

  readonly contended = false;
  /** API key whose share of the queue is used up */
  full: string | undefined;
  async load(namespace: Namespace, keys: string[], owner: string): Promise<LoadedHotels> {
    this.queries.push(`${namespace} ${keys}`);
    const { position: label, history } = this;
    const columns = { id: 'id', channel: 'channel_id', registry: 'registry_id' } as const;
    const rows = this.rows.filter((row) => keys.includes(row[columns[namespace]]!));
    const entries = rows.map((row) => hotel({ ...row, label }));
    await this.#held?.promise;
    if (owner === this.full) throw new Unavailable('full', 'postgres_queue');
    return { label, entries, isOfHistory: () => history === this.history };
  }
}

let repository: FakeRepository;
let redis: ReturnType<typeof openRedisBatch>;
let reader: HotelReader;

beforeEach(() => {
  repository = new FakeRepository();
  redis = openRedisBatch(1024 ** 2);
  reader = new HotelReader({
    ...{ repository, redisCache: redis.cache, redisBatch: redis.reader, window: redis.window },
    ...{ local: redis.local, sizes: new HotelSizes() },
    ...{ isCurrent: () => true, collections: undefined, mayServeAnyAge: () => false, count: () => {} },
  } as never);
});

const nameOf = (entry: Found | undefined) => entry && JSON.parse(entry.body('full').toString()).name;
const load = async (namespace: Namespace, key: string) =>
  nameOf((await reader.load(namespace, [key], ''))[0]);
const queriesAre = (count: number) =>
  expect.poll(() => repository.queries.length, { interval: 1 }).toBe(count);
/** Begins a load, which has read its rows, and answers when PostgreSQL is released. */
async function begin(namespace: Namespace, key: string) {
  repository.hold();
  const loading = load(namespace, key);
  await queriesAre(1);
  return async () => {
    repository.release();
    const found = await loading;
    // Redis is filled behind it
    await nextTick();
    return found;
  };
}
/** Changes the hotel `a`, or creates it; `keys` are those that the log names. */
function change(row: Fields, keys: [Namespace, string][]): void {
  repository.rows = [row];
  repository.position = CHANGE;
  for (const [namespace, key] of keys) {
    redis.window.raise(namespace, key, CHANGE);
    reader.loader.forget(namespace, key);
    redis.local.drop(namespace, key);
  }
}
const A = { id: 'a', channel_id: 'C', name: 'old' };
const NEW = { ...A, name: 'new' };
const KEYS_OF_A: [Namespace, string][] = [
  ['id', 'a'],
  ['channel', 'C'],
];
/** Returns the name of the hotel that another worker takes from Redis; undefined: it has nothing to use. */
async function fromRedis(namespace: Namespace, key: string) {
  // it stores nothing here
  redis.may.read = false;
  return nameOf((await redis.read(namespace, [key]))[0]);
}

it('a hotel whose certification flips is taken from either cache without a query, also when the clock goes back', async () => {
  const setWallClock = fakeClocks(NOW_MS);
  const certification_url = 'https://badge.example/';
  const dates = { certified_from: '2026-11-22', certified_until: '2026-11-22' };
  await redis.cache.fill([hotel({ ...A, ...dates, certification_url })]);
  const certified = async (local: () => void) => {
    const shown: unknown[] = [];
    for (const days of [0, 1, 1, -1, -1, 2, -2]) {
      setWallClock(days * DAY_MS);
      local();
      const [found] = await reader.load('id', ['a'], '');
      shown.push(JSON.parse(`${found!.body('full')}`).certification_url);
    }
    return shown;
  };
  const url = [null, certification_url, null, certification_url, null, null, null];
  expect(await certified(() => redis.local.clear())).toEqual(url);
  redis.store.stored.clear();
  expect(await certified(() => {})).toEqual(url);
  expect(repository.queries).toEqual([]);
});

it('a lookup behind a read of Redis does not read it again', async () => {
  await redis.cache.fill([hotel(A)]);
  expect(await reader.load('id', ['a'], '', null, false)).toEqual([null]);
  expect(repository.queries).toEqual(['id a']);
});

describe('a load', () => {
  beforeEach(() => {
    repository.rows = [A];
  });

  it('that began before a change of the hotel is stored nowhere where it is used', async () => {
    const end = await begin('id', 'a');
    change(NEW, KEYS_OF_A);
    // it is known to be outdated, and read again
    expect(await end()).toBe('new');
    repository.queries = [];
    expect(await load('id', 'a')).toBe('new');
    expect(await fromRedis('id', 'a')).toBe('new');
    expect(repository.queries).toEqual([]);
  });

  it('that ends under another history is stored neither here nor in Redis', async () => {
    const end = await begin('id', 'a');
    repository.history = 'second';
    redis.names.prefix = 'second';
    redis.window.beginHistory(5);
    expect(await end()).toBe('old');
    expect([redis.local.find('id', 'a'), redis.store.stored.size]).toEqual([MISS, 0]);
  });

  it('is not joined by a request behind a change', async () => {
    const end = await begin('channel', 'C');
    change(NEW, KEYS_OF_A);
    const later = load('channel', 'C');
    await queriesAre(2);
    await end();
    expect(await later).toBe('new');
  });

  it('under a key that the hotel has lost is read again, although the change does not name the key', async () => {
    const end = await begin('channel', 'C');
    change({ ...A, channel_id: 'D' }, [
      ['id', 'a'],
      ['channel', 'D'],
    ]);
    const later = load('channel', 'C');
    expect(await end()).toBeNull();
    expect(await later).toBeNull();
    expect(redis.local.find('channel', 'C')).toBe(ABSENT);
    expect(await load('channel', 'D')).toBe('old');
  });

  it('that the share of one API key rejects is begun again for those of others that have joined it', async () => {
    repository.full = 'many';
    repository.hold();
    const [own, ...joined] = ['many', 'few', 'other'].map((owner) => reader.loader.load('id', ['a'], owner));
    await queriesAre(1);
    repository.release();
    await expect(own).rejects.toThrow(Unavailable);
    for (const [found] of await Promise.all(joined)) expect(nameOf(found!.byKey.get('a'))).toBe('old');
  });
});

it.each(KEYS_OF_A)('an absence of before an insert is not used later: by %s', async (namespace, key) => {
  const end = await begin(namespace, key);
  change(NEW, KEYS_OF_A);
  await end();
  expect(redis.local.find(namespace, key)).not.toBe(ABSENT);
  // any client could fill it
  expect(redis.store.stored.size).toBe(0);
  expect(await load(namespace, key)).toBe('new');
});
