import { setImmediate as nextTick } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { Unavailable } from '../errors.ts';
import type { Entry } from '../hotels/entry.ts';
import type { Namespace } from '../hotels/namespace.ts';
import type { LoadedHotels } from '../hotels/repository.ts';
import { Window } from '../log/window.ts';
import { FakeStore } from '../redis/store.fixture.ts';
import { hotel } from './arena/arena.fixture.ts';
import { ABSENT, MISS } from './arena/arena.ts';
import { HotelReader } from './hotel-reader.ts';
import { localCacheIn } from './local-cache.fixture.ts';
import type { LocalCache } from './local-cache.ts';
import { CacheMemory } from './memory.ts';
import { RedisBatchReader } from './redis-batch/redis-batch.ts';
import { absenceOf, RedisHotelCache } from './redis-hotel-cache.ts';

/** Position at which hotels are read before any change of a test, and that of the change. */
const BEFORE = 10;
const CHANGE = 20;

type Fields = Parameters<typeof hotel>[0];

/** PostgreSQL: each query reads its rows at once, and answers when it is released. */
class FakeOrigin {
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
    const { position: label } = this;
    const columns = { id: 'id', channel: 'channel_id', registry: 'registry_id' } as const;
    const rows = this.rows.filter((row) => keys.includes(row[columns[namespace]]!));
    const entries = rows.map((row) => hotel({ ...row, label }));
    await this.#held?.promise;
    if (owner === this.full) throw new Unavailable('full', { rejection: 'postgres_queue' });
    // like the repository, which returns nothing that another history could have
    const { history } = this;
    return { label, entries, isOfHistory: () => history === this.history };
  }
}

let origin: FakeOrigin;
let store: FakeStore;
let redis: RedisHotelCache;
let other: RedisBatchReader;
let local: LocalCache;
let window: Window;
let reader: HotelReader;
let isCurrent: boolean;

beforeEach(() => {
  origin = new FakeOrigin();
  store = new FakeStore();
  redis = new RedisHotelCache(store as never, { ttlMs: 1, absentTtlMs: 1, onInvalidValue: () => {} });
  redis.usePrefix('first');
  const memory = new CacheMemory(1024 ** 2);
  window = new Window(memory.window);
  window.beginHistory(0);
  isCurrent = true;
  local = localCacheIn(memory);
  const parts = { redis: store as never, cache: redis, local, memory, count: () => {} };
  const redisBatch = new RedisBatchReader({ ...parts, mayRead: () => true });
  // it stores nothing here
  other = new RedisBatchReader({ ...parts, mayRead: () => false });
  reader = new HotelReader({
    ...({ origin, redisCache: redis, redisBatch, window, local } as never as object),
    isCurrent: () => isCurrent,
    collections: undefined,
    mayServeAnyAge: () => false,
    count: () => {},
  } as never);
});

const nameOf = (entry: Entry | null | undefined) => entry && JSON.parse(entry.body('full').toString()).name;
const load = async (namespace: Namespace, key: string) =>
  nameOf((await reader.load(namespace, [key], ''))[0]);
/** Begins a load, which has read its rows, and answers when PostgreSQL is released. */
async function begin(namespace: Namespace, key: string) {
  const { length } = origin.queries;
  origin.hold();
  const loading = load(namespace, key);
  await expect.poll(() => origin.queries.length, { interval: 1 }).toBe(length + 1);
  return async () => {
    origin.release();
    const found = await loading;
    // Redis is filled behind it
    await nextTick();
    return found;
  };
}
/** Changes the hotel with this id, or creates or deletes it; `keys` are those that the log names. */
function change(row: Fields | undefined, id: string, keys: [Namespace, string][]): void {
  origin.rows = origin.rows.filter((each) => each.id !== id).concat(row ?? []);
  origin.position = CHANGE;
  for (const [namespace, key] of keys) {
    window.raise(namespace, key, CHANGE);
    reader.loader.forget(namespace, key);
    local.drop(namespace, key);
  }
}
const A = { id: 'a', channel_id: 'C', name: 'old' };
const KEYS_OF_A: [Namespace, string][] = [
  ['id', 'a'],
  ['channel', 'C'],
];
/** Returns the name of the hotel that another worker takes from Redis; undefined: it has nothing to use. */
async function fromRedis(namespace: Namespace, key: string) {
  return nameOf((await other.read(namespace, [key]))[0]);
}

describe('a load', () => {
  it('that began before a change of the hotel is stored nowhere where it is used', async () => {
    origin.rows = [A];
    const end = await begin('id', 'a');
    change({ ...A, name: 'new' }, 'a', KEYS_OF_A);
    // it is known to be outdated, and read again
    expect(await end()).toBe('new');
    origin.queries = [];
    expect(await load('id', 'a')).toBe('new');
    expect(await fromRedis('id', 'a')).toBe('new');
    expect(origin.queries).toEqual([]);
  });

  it('that ends under another history is stored neither here nor in Redis', async () => {
    origin.rows = [A];
    const first = origin.load('id', ['a'], '');
    const loaded = await first;
    origin.load = async () => {
      // it has read its rows; then the other history begins
      origin.history = 'second';
      redis.usePrefix('second');
      window.beginHistory(5);
      return loaded;
    };
    expect(await load('id', 'a')).toBe('old');
    await nextTick();
    expect([local.find('id', 'a'), store.stored.size]).toEqual([MISS, 0]);
  });

  it('is not joined by a request behind a change', async () => {
    origin.rows = [A];
    const end = await begin('channel', 'C');
    change({ ...A, name: 'new' }, 'a', KEYS_OF_A);
    const { length } = origin.queries;
    const later = load('channel', 'C');
    await expect.poll(() => origin.queries.length, { interval: 1 }).toBe(length + 1);
    await end();
    expect(await later).toBe('new');
  });

  it('under a key that the hotel has lost is read again, although the change does not name the key', async () => {
    origin.rows = [A];
    const end = await begin('channel', 'C');
    change({ ...A, channel_id: 'D' }, 'a', [
      ['id', 'a'],
      ['channel', 'D'],
    ]);
    const later = load('channel', 'C');
    expect(await end()).toBeNull();
    expect(await later).toBeNull();
    expect(local.find('channel', 'C')).toBe(ABSENT);
    expect(await load('channel', 'D')).toBe('old');
  });

  it('that the share of one API key rejects is begun again for those of others that have joined it', async () => {
    origin.rows = [A];
    origin.full = 'many';
    origin.hold();
    const [own, ...joined] = ['many', 'few', 'other'].map((owner) => reader.loader.load('id', ['a'], owner));
    await expect.poll(() => origin.queries.length, { interval: 1 }).toBe(1);
    origin.release();
    await expect(own).rejects.toThrow(Unavailable);
    for (const [found] of await Promise.all(joined)) expect(nameOf(found!.byKey.get('a'))).toBe('old');
  });

  it('is not joined by a request if it began over 3.3 s ago', async () => {
    origin.rows = [A];
    isCurrent = false;
    const end = await begin('id', 'a');
    const { length } = origin.queries;
    // as after a stop of this process
    const began = performance.now;
    performance.now = () => began.call(performance) + 3_400;
    try {
      origin.rows = [{ ...A, name: 'new' }];
      const later = load('id', 'a');
      await nextTick();
      expect(await end()).toBe('old');
      expect(await later).toBe('new');
      expect(origin.queries.length).toBe(length + 1);
    } finally {
      performance.now = began;
    }
  });
});

describe('an absence', () => {
  it.each<[Namespace, string]>([
    ['id', 'a'],
    ['channel', 'C'],
  ])('that was read before an insert is used nowhere behind it: by %s', async (namespace, key) => {
    const end = await begin(namespace, key);
    change({ ...A, name: 'new' }, 'a', KEYS_OF_A);
    await end();
    expect(local.find(namespace, key)).not.toBe(ABSENT);
    // it stands in Redis with its label
    const name = namespace === 'id' ? `first:h:${key}` : `first:c:${key}`;
    expect(store.stored.get(name)).toEqual(absenceOf(namespace, key, BEFORE));
    if (namespace === 'channel') expect(await fromRedis(namespace, key)).toBeUndefined();
    expect(await load(namespace, key)).toBe('new');
  });
});
