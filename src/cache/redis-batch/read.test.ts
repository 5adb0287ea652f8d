import { beforeEach, describe, expect, it } from 'vitest';
import { type Entry, NARROW_END_BYTES } from '../../hotels/entry.ts';
import {
  FULL_TAG_AT,
  HEADER_BYTES,
  KEY_LENGTHS_AT,
  LABEL_AT,
  NARROW_TAG_AT,
  OTHER_LENGTH_AT,
  SHOWN_AT,
  TAG_BYTES,
} from '../../hotels/entry-layout.ts';
import { FORGERIES, forged } from '../../hotels/forged.fixture.ts';
import type { Namespace } from '../../hotels/namespace.ts';
import type { HotelRow } from '../../hotels/row.ts';
import { hotel as hotelOf } from '../arena/arena.fixture.ts';
import { openRedisBatch, TTL_MS } from './redis-batch.fixture.ts';

const MIB = 1024 ** 2;
const KEYS: [Namespace, string][] = [
  ['id', 'h'],
  ['channel', 'C'],
  ['registry', '7'],
];

let redis: ReturnType<typeof openRedisBatch>;
beforeEach(() => {
  redis = openRedisBatch();
});

const hotel = (label: number, fields: Partial<HotelRow> = {}): Entry =>
  hotelOf({ id: 'h', channel_id: 'C', registry_id: '7', label, ...fields });

/** Reads the hotel by each of its keys; returns the labels, or what else is found. */
async function readAll(): Promise<unknown[]> {
  const results = [];
  for (const [namespace, key] of KEYS) results.push(...(await redis.read(namespace, [key])));
  return results.map((found) => (found === null ? null : found?.label));
}

describe('hotels in Redis', () => {
  beforeEach(() => redis.cache.fill([hotel(5)]));

  it('are found by each of their keys, at the position of their change and not below it', async () => {
    redis.window.raise('id', 'h', 5);
    expect(await readAll()).toEqual([5, 5, 5]);
    expect(redis.counted).toMatchObject({ hit: 3, absent: 0, miss: 0 });
    redis.window.raise('id', 'h', 6);
    expect(await readAll()).toEqual([undefined, undefined, undefined]);
    await redis.cache.fill([hotel(6)]);
    expect(await readAll()).toEqual([6, 6, 6]);
  });

  it('are not found by an id that they do not have any more', async () => {
    await redis.cache.fill([hotel(6, { channel_id: 'D' }), hotel(6, { id: 'none', channel_id: null })]);
    redis.store.stored.set('p:c:none', Buffer.from('>none'));
    const found = await redis.read('channel', ['C', 'D', 'none']);
    expect(found).toEqual([undefined, expect.anything(), undefined]);
  });

  it('live as long as their pointers, for half of the maximum to all of it', async () => {
    const [ofEntry, ...ofPointers] = redis.store.lifetimesMs.values();
    expect(ofPointers).toEqual([ofEntry, ofEntry]);
    expect(ofEntry).toBeGreaterThanOrEqual(TTL_MS / 2);
    expect(ofEntry).toBeLessThanOrEqual(TTL_MS);
  });
});

it('what Redis returned is kept in place of what the local cache holds, also while it is full', async () => {
  redis = openRedisBatch(MIB);
  const { cache, read, local } = redis;
  local.store(hotel(4));
  for (let i = 0; local.arena.hasRoom; i++) local.store(hotelOf({ id: `x${i}` }));
  await cache.fill([hotel(5), hotel(5, { id: 'other', channel_id: 'O', registry_id: '8' })]);
  expect(local.find('id', 'h')).toBeGreaterThan(0);
  local.storeAbsent('registry', '8');
  await read('id', ['h', 'other']);
  const label = (key: string) => local.lastKnown('id', key)?.label;
  expect([label('h'), label('other')]).toEqual([5, undefined]);
  // by a key of which an absence is held
  await read('registry', ['8']);
  expect(label('other')).toBe(5);
});

const TEXTS = ['', 'corrupt', '-', '>', 'HED5', '{"id":"h"}', 'x'.repeat(HEADER_BYTES - 1)];
const INVALID: [string, (original: Buffer) => Buffer][] = [
  ...TEXTS.map((text): [string, () => Buffer] => [text, () => Buffer.from(text)]),
  ['an entry that is cut off', (original) => original.subarray(0, -1)],
  ['the entry of another hotel', () => hotel(5, { id: 'other' }).bytes],
  ['2,000 foreign bytes', () => Buffer.alloc(2_000, 'x')],
  ['a value larger than any hotel', () => Buffer.alloc(20 * MIB, 'x')],
  ...FORGERIES,
];

describe('an invalid value', () => {
  it.each(INVALID)('%j is missing, and replaced by the next load', async (_, forge) => {
    await redis.cache.fill([hotel(5), hotel(5, { id: 'other', channel_id: null, registry_id: null })]);
    redis.store.stored.set('p:h:h', forge(hotel(5).bytes));
    expect(await readAll()).toEqual([undefined, undefined, undefined]);
    expect(redis.counted.invalid).toBe(3);
    expect(await redis.read('id', ['h', 'other'])).toEqual([undefined, expect.anything()]);
    await redis.cache.fill([hotel(5)]);
    expect(await readAll()).toEqual([5, 5, 5]);
  });

  it.each(TEXTS)('in place of a pointer is missing: %j', async (text) => {
    await redis.cache.fill([hotel(5)]);
    for (const name of ['p:c:C', 'p:r:7']) redis.store.stored.set(name, Buffer.from(text));
    expect(await readAll()).toEqual([5, undefined, undefined]);
    expect(redis.counted.invalid).toBe(2);
  });

  it('is an entry with a flipped bit in its magic number, a length or its id; any other flip is served within its value', async () => {
    const [original, neighbour] = [hotel(5), hotel(5, { id: 'other', channel_id: null, registry_id: null })];
    await redis.cache.fill([original, neighbour]);
    const body = original.body('full');
    const bodyAt = original.bytes.length - body.length;
    for (let bit = 0; bit < 8 * original.bytes.length; bit++) {
      const at = bit >> 3;
      const flipped = forged(original.bytes, (bytes) => bytes.writeUInt8(bytes[at]! ^ (1 << (bit & 7)), at));
      redis.store.stored.set('p:h:h', flipped);
      const [found, other] = await redis.read('id', ['h', 'other']);
      expect(other!.body('full')).toEqual(neighbour.body('full'));
      const isLength = (at >= KEY_LENGTHS_AT && at < SHOWN_AT) || at >= OTHER_LENGTH_AT;
      const isChecked = at < LABEL_AT || (isLength && at < HEADER_BYTES + 'h'.length);
      if (isChecked) expect([bit, found]).toEqual([bit, undefined]);
      else if (at >= bodyAt || at === HEADER_BYTES + 'h'.length) expect(found).toBeDefined();
      if (!found) continue;
      const differing = found.body('full').filter((byte, i) => byte !== body[i]).length;
      expect([bit, found.bodyLength('full'), differing]).toEqual([bit, body.length, at >= bodyAt ? 1 : 0]);
      expect(found.bodyLength('narrow')).toBeLessThanOrEqual(body.length + NARROW_END_BYTES);
    }
  });

  it('is an entry exactly if a byte of its tags is no character of base64url', async () => {
    const original = hotel(5).bytes;
    for (let place = 0; place < 2 * TAG_BYTES; place++) {
      const at = place < TAG_BYTES ? NARROW_TAG_AT + place : FULL_TAG_AT + place - TAG_BYTES;
      for (let byte = 0; byte < 256; byte++) {
        const changed = forged(original, (bytes) => bytes.writeUInt8(byte, at));
        redis.store.stored.set('p:h:h', changed);
        const [found] = await redis.read('id', ['h']);
        const isOfTags = /[A-Za-z0-9_-]/.test(String.fromCharCode(byte));
        expect([place, byte, found !== undefined]).toEqual([place, byte, isOfTags]);
      }
    }
  });
});
