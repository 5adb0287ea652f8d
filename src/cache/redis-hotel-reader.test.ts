import { beforeEach, describe, expect, it } from 'vitest';
import { encodeAbsence, encodeHotel } from '../hotels/encode.ts';
import type { Entry } from '../hotels/entry.ts';
import { rowOf } from '../hotels/row.fixture.ts';
import type { HotelRow } from '../hotels/row.ts';
import { Window } from '../log/window.ts';
import { Values } from '../redis/reply-parser.ts';
import type { RedisStore } from '../redis/store.ts';
import { RedisHotelCache } from './redis-hotel-cache.ts';
import { RedisHotelReader } from './redis-hotel-reader.ts';

const TTL_MS = 60_000;
const ABSENT_TTL_MS = 1_000;

let stored: Map<string, Buffer>;
let lifetimes: Map<string, number>;
let invalid: number;
let counted: Record<'hit' | 'absent' | 'miss', number>;
/** called before each reply */
let onRead: () => void;
let window: Window;
let cache: RedisHotelCache;
let reader: RedisHotelReader;

const redis: Pick<RedisStore, 'readMany' | 'setMany'> = {
  readMany: async (keys, prefix) => {
    onRead();
    const found = keys.map((key) => stored.get(prefix + key));
    const places: number[] = [];
    let end = 0;
    for (const value of found) {
      places.push(end, value?.length ?? -1);
      end += value?.length ?? 0;
    }
    return new Values(Buffer.concat(found.filter((value) => value !== undefined)), places);
  },
  setMany: async (values) => {
    for (const [key, value, ttlMs] of values) {
      stored.set(key, Buffer.from(value));
      lifetimes.set(key, ttlMs);
    }
  },
};

const hotel = (label: number, fields: Partial<HotelRow> = {}): Entry =>
  encodeHotel(rowOf({ id: 'h', channel_id: 'C', registry_id: '7', ...fields }), label, Date.now());

beforeEach(() => {
  stored = new Map();
  lifetimes = new Map();
  invalid = 0;
  counted = { hit: 0, absent: 0, miss: 0 };
  onRead = () => {};
  window = new Window();
  window.lowerFloor(0);
  const onInvalidValue = () => void invalid++;
  cache = new RedisHotelCache(redis as RedisStore, {
    ttlMs: TTL_MS,
    absentTtlMs: ABSENT_TTL_MS,
    onInvalidValue,
  });
  cache.usePrefix('p');
  const count = (_: string, result: 'hit' | 'absent' | 'miss', keys: number) => {
    counted[result] += keys;
  };
  reader = new RedisHotelReader({ cache, window, count });
});

/** Reads the hotel by each of its keys; returns the results. */
async function readAll(): Promise<unknown[]> {
  const results = [];
  for (const [namespace, key] of [
    ['id', 'h'] as const,
    ['channel', 'C'] as const,
    ['registry', '7'] as const,
  ])
    results.push(...(await reader.read(namespace, [key], undefined)));
  return results.map((found) => found && (found as Entry).label);
}

describe('hotels in Redis', () => {
  it('are found by each of their keys', async () => {
    await cache.fill([hotel(5)]);
    expect(await readAll()).toEqual([5, 5, 5]);
    expect(counted).toEqual({ hit: 3, absent: 0, miss: 0 });
  });

  it('are used at the position of their change, and not below it', async () => {
    await cache.fill([hotel(5)]);
    window.raise('id', 'h', 5);
    expect(await readAll()).toEqual([5, 5, 5]);
    window.raise('id', 'h', 6);
    expect(await readAll()).toEqual([undefined, undefined, undefined]);
    await cache.fill([hotel(6)]);
    expect(await readAll()).toEqual([6, 6, 6]);
  });

  it('are not used below the floor of the window', async () => {
    await cache.fill([hotel(5)]);
    window.raiseFloor(6);
    expect(await readAll()).toEqual([undefined, undefined, undefined]);
  });

  it('are not used after a change that is applied before the reply', async () => {
    await cache.fill([hotel(5)]);
    onRead = () => window.raise('id', 'h', 6);
    expect(await readAll()).toEqual([undefined, undefined, undefined]);
  });

  it('are not used if another history begins before the reply', async () => {
    await cache.fill([hotel(5)]);
    await cache.rememberAbsent('channel', ['none'], 5);
    for (const [namespace, key] of [
      ['id', 'h'] as const,
      ['channel', 'C'] as const,
      ['channel', 'none'] as const,
    ]) {
      cache.usePrefix('p');
      onRead = () => cache.usePrefix('another');
      expect(await reader.read(namespace, [key], undefined)).toEqual([undefined]);
    }
  });

  it('that an older load stores over a newer one are only missing', async () => {
    await cache.fill([hotel(6)]);
    await cache.fill([hotel(5)]);
    await cache.rememberAbsent('channel', ['C'], 5);
    window.raise('id', 'h', 6);
    window.raise('channel', 'C', 6);
    expect(await readAll()).toEqual([undefined, undefined, undefined]);
    expect(invalid).toBe(0);
  });

  it('are not found by an id that they do not have any more', async () => {
    await cache.fill([hotel(5)]);
    await cache.fill([hotel(6, { channel_id: 'D' })]);
    expect(await reader.read('channel', ['C', 'D'], undefined)).toEqual([undefined, expect.anything()]);
  });

  it('are returned as they read today, and stay as they are in Redis', async () => {
    const dated = rowOf({ id: 'h', certified_from: '2020-01-01', certified_until: '2020-01-31' });
    await cache.fill([encodeHotel(dated, 5, Date.parse('2020-01-15'))]);
    const before = new Map(stored);
    const [found] = await reader.read('id', ['h'], undefined);
    expect(found!.validUntilMs).toBe(Infinity);
    expect(found!.label).toBe(5);
    expect(JSON.parse(String(found!.body('full'))).certified).toBe(false);
    expect(stored).toEqual(before);
  });

  it('are not requested again where they are known', async () => {
    await cache.fill([hotel(5)]);
    const known = hotel(4, { id: 'known' });
    const found = await reader.read('id', ['known', 'h', 'absent'], [known, undefined, null]);
    expect(found.map((entry) => entry?.label)).toEqual([4, 5, undefined]);
    expect(found[2]).toBeNull();
    expect(counted).toEqual({ hit: 1, absent: 0, miss: 0 });
  });

  it('live as long as their pointers, for half of the maximum to all of it', async () => {
    await cache.fill([hotel(5)]);
    const [ofEntry, ...ofPointers] = lifetimes.values();
    expect(ofPointers).toEqual([ofEntry, ofEntry]);
    expect(ofEntry).toBeGreaterThanOrEqual(TTL_MS / 2);
    expect(ofEntry).toBeLessThanOrEqual(TTL_MS);
  });
});

describe('absences in Redis', () => {
  it('are used unless a newer change of their key is known', async () => {
    await cache.rememberAbsent('id', ['h'], 5);
    await cache.rememberAbsent('channel', ['C'], 5);
    await cache.rememberAbsent('registry', ['7'], 5);
    expect(await readAll()).toEqual([null, null, null]);
    expect(counted).toEqual({ hit: 0, absent: 3, miss: 0 });
    window.raise('channel', 'C', 6);
    expect(await readAll()).toEqual([null, undefined, null]);
    window.raiseFloor(6);
    expect(await readAll()).toEqual([undefined, undefined, undefined]);
  });

  it('live for a short time', async () => {
    await cache.rememberAbsent('channel', ['C'], 5);
    await cache.fill([encodeAbsence('id', 'h', 5)]);
    expect(lifetimes.size).toBe(2);
    for (const ttlMs of lifetimes.values()) expect(ttlMs).toBeLessThanOrEqual(ABSENT_TTL_MS);
  });
});

it.each(['', 'corrupt', '-', '-x', '-5 ', '{"id":"h"}'])(
  'an invalid value %j is counted, missing, and replaced by the next load',
  async (value) => {
    for (const name of ['p:h:h', 'p:c:C', 'p:r:7']) stored.set(name, Buffer.from(value));
    expect(await readAll()).toEqual([undefined, undefined, undefined]);
    expect(invalid).toBe(3);
    await cache.fill([hotel(5)]);
    expect(await readAll()).toEqual([5, 5, 5]);
  },
);

it('the absence of another key is invalid', async () => {
  await cache.rememberAbsent('channel', ['other'], 5);
  stored.set('p:c:C', stored.get('p:c:other')!);
  expect(await reader.read('channel', ['C'], undefined)).toEqual([undefined]);
  expect(invalid).toBe(1);
});

it('the entry of another hotel is invalid', async () => {
  await cache.fill([hotel(5, { id: 'other' })]);
  stored.set('p:h:h', stored.get('p:h:other')!);
  expect(await reader.read('id', ['h'], undefined)).toEqual([undefined]);
  expect(invalid).toBe(1);
});
