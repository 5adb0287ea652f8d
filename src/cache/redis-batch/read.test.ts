import { beforeEach, describe, expect, it } from 'vitest';
import { encodeAbsence, encodeHotel } from '../../hotels/encode.ts';
import type { Entry } from '../../hotels/entry.ts';
import { FULL_TAG_AT, NARROW_TAG_AT, TAG_BYTES } from '../../hotels/entry-layout.ts';
import { FORGERIES, forged } from '../../hotels/forged.fixture.ts';
import { rowOf } from '../../hotels/row.fixture.ts';
import type { HotelRow } from '../../hotels/row.ts';
import { Window } from '../../log/window.ts';
import { FakeStore } from '../../redis/store.fixture.ts';
import { NOW_MS } from '../arena/arena.fixture.ts';
import { ABSENT, MISS } from '../arena/arena.ts';
import { localCacheIn } from '../local-cache.fixture.ts';
import { CacheMemory } from '../memory.ts';
import { RedisHotelCache } from '../redis-hotel-cache.ts';
import { RedisBatchReader } from './redis-batch.ts';

const TTL_MS = 60_000;
const ABSENT_TTL_MS = 1_000;
const MIB = 1024 ** 2;

let store: FakeStore;
let invalid: number;
let counted: Record<'hit' | 'absent' | 'miss', number>;
let window: Window;
let cache: RedisHotelCache;
let reader: RedisBatchReader;
let local: ReturnType<typeof localCacheIn>;

const hotel = (label: number, fields: Partial<HotelRow> = {}): Entry =>
  encodeHotel(rowOf({ id: 'h', channel_id: 'C', registry_id: '7', ...fields }), label, NOW_MS);

function open(maxBytes: number): void {
  store = new FakeStore();
  invalid = 0;
  counted = { hit: 0, absent: 0, miss: 0 };
  const memory = new CacheMemory(maxBytes);
  window = new Window(memory.window);
  window.lowerFloor(0);
  cache = new RedisHotelCache(store as never, {
    ttlMs: TTL_MS,
    absentTtlMs: ABSENT_TTL_MS,
    onInvalidValue: () => void invalid++,
  });
  cache.usePrefix('p');
  local = localCacheIn(memory);
  reader = new RedisBatchReader({
    ...{ redis: store as never, cache, local, memory, mayRead: () => true },
    count: (_, result, keys) => {
      counted[result] += keys;
    },
  });
}
beforeEach(() => open(0));

/** Reads the hotel by each of its keys; returns the results. */
async function readAll(): Promise<unknown[]> {
  const results = [];
  for (const [namespace, key] of [
    ['id', 'h'] as const,
    ['channel', 'C'] as const,
    ['registry', '7'] as const,
  ])
    results.push(...(await reader.read(namespace, [key])));
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

  it('are not used after a change that is applied before the reply', async () => {
    await cache.fill([hotel(5)]);
    store.onRead = () => window.raise('id', 'h', 6);
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
      store.onRead = () => cache.usePrefix('another');
      expect(await reader.read(namespace, [key])).toEqual([undefined]);
    }
  });

  it('are not found by an id that they do not have any more', async () => {
    await cache.fill([hotel(5)]);
    await cache.fill([hotel(6, { channel_id: 'D' })]);
    expect(await reader.read('channel', ['C', 'D'])).toEqual([undefined, expect.anything()]);
  });

  it('are returned as they read today, and stay as they are in Redis', async () => {
    const dated = rowOf({ id: 'h', certified_from: '2020-01-01', certified_until: '2020-01-31' });
    await cache.fill([encodeHotel(dated, 5, Date.parse('2020-01-15'))]);
    const before = new Map(store.stored);
    const [found] = await reader.read('id', ['h']);
    expect(found!.validUntilMs).toBe(Infinity);
    expect(found!.label).toBe(5);
    expect(JSON.parse(String(found!.body('full'))).certified).toBe(false);
    expect(store.stored).toEqual(before);
  });

  it('live as long as their pointers, for half of the maximum to all of it', async () => {
    await cache.fill([hotel(5)]);
    const [ofEntry, ...ofPointers] = store.lifetimesMs.values();
    expect(ofPointers).toEqual([ofEntry, ofEntry]);
    expect(ofEntry).toBeGreaterThanOrEqual(TTL_MS / 2);
    expect(ofEntry).toBeLessThanOrEqual(TTL_MS);
  });
});

describe('what Redis returned is kept in the local cache', () => {
  beforeEach(() => open(MIB));

  it('by all keys of a hotel, and absences by theirs', async () => {
    await cache.fill([hotel(5)]);
    await cache.rememberAbsent('id', ['none'], 5);
    await cache.rememberAbsent('channel', ['none'], 5);
    await reader.read('channel', ['C', 'none']);
    await reader.read('id', ['none', 'unknown']);
    expect(local.find('registry', '7')).toBeGreaterThan(0);
    expect([local.find('id', 'none'), local.find('channel', 'none')]).toEqual([ABSENT, ABSENT]);
    expect(local.find('id', 'unknown')).toBe(MISS);
  });

  it('in place of what it holds, also while it is full', async () => {
    local.store(hotel(4));
    for (let i = 0; local.arena.hasRoom; i++)
      local.store(hotel(4, { id: `x${i}`, channel_id: null, registry_id: null }));
    await cache.fill([hotel(5), hotel(5, { id: 'other', channel_id: 'O', registry_id: '8' })]);
    expect(local.find('id', 'h')).toBeGreaterThan(0);
    local.storeAbsent('registry', '8');
    await reader.read('id', ['h', 'other']);
    const label = (key: string) => local.lastKnown('id', key)?.label;
    expect([label('h'), label('other')]).toEqual([5, undefined]);
    // by a key of which an absence is held
    await reader.read('registry', ['8']);
    expect(label('other')).toBe(5);
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
    expect(store.lifetimesMs.size).toBe(2);
    for (const ttlMs of store.lifetimesMs.values()) expect(ttlMs).toBeLessThanOrEqual(ABSENT_TTL_MS);
  });
});

it.each(['', 'corrupt', '-', '-x', '-5 ', '{"id":"h"}'])(
  'an invalid value %j is counted, missing, and replaced by the next load',
  async (value) => {
    for (const name of ['p:h:h', 'p:c:C', 'p:r:7']) store.stored.set(name, Buffer.from(value));
    expect(await readAll()).toEqual([undefined, undefined, undefined]);
    expect(invalid).toBe(3);
    await cache.fill([hotel(5)]);
    expect(await readAll()).toEqual([5, 5, 5]);
  },
);

describe('a forged entry with a right checksum', () => {
  it.each(FORGERIES)(
    'and %s is counted as invalid, missing, and replaced by the next load',
    async (_, forge) => {
      await cache.fill([hotel(5), hotel(5, { id: 'other', channel_id: null, registry_id: null })]);
      store.stored.set('p:h:h', forge(hotel(5).bytes));
      expect(await readAll()).toEqual([undefined, undefined, undefined]);
      expect(invalid).toBe(3);
      expect(await reader.read('id', ['h', 'other'])).toEqual([undefined, expect.anything()]);
      await cache.fill([hotel(5)]);
      expect(await readAll()).toEqual([5, 5, 5]);
    },
  );

  it('is used exactly if each byte of its tags is a character of base64url', async () => {
    const original = hotel(5).bytes;
    for (let place = 0; place < 2 * TAG_BYTES; place++) {
      const at = place < TAG_BYTES ? NARROW_TAG_AT + place : FULL_TAG_AT + place - TAG_BYTES;
      for (let byte = 0; byte < 256; byte++) {
        store.stored.set(
          'p:h:h',
          forged(original, (bytes) => bytes.writeUInt8(byte, at)),
        );
        const [found] = await reader.read('id', ['h']);
        const isOfTags = /[A-Za-z0-9_-]/.test(String.fromCharCode(byte));
        expect([place, byte, found !== undefined]).toEqual([place, byte, isOfTags]);
      }
    }
  });
});

it('a removed hotel, to which a pointer still leads, is a miss and no invalid value', async () => {
  await cache.fill([hotel(5)]);
  await cache.fill([encodeAbsence('id', 'h', 6)]);
  expect(await readAll()).toEqual([null, undefined, undefined]);
  expect(invalid).toBe(0);
});
