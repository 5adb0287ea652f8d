import { describe, expect, it, vi } from 'vitest';
import { encodeHotel } from '../../hotels/encode.ts';
import type { View } from '../../hotels/entry.ts';
import { PartialResponse } from '../../hotels/json-array.ts';
import { rowOf } from '../../hotels/row.fixture.ts';
import { DAY_MS } from '../../lib/clock.ts';
import { ABSENT, MISS } from '../../wasm/constants.ts';
import { hotel, NOW_MS } from '../arena/arena.fixture.ts';
import { random, seedRandom } from '../hostile-redis.fixture.ts';
import { openRedisBatch } from './redis-batch.fixture.ts';

const HOTELS = 300;
const ALL = Array.from({ length: HOTELS }, (_, i) => i);
const hotels = ALL.map((i) =>
  hotel({
    ...{ id: `h${i}`, channel_id: `ch-${i}`, registry_id: i % 3 ? String(i) : null },
    ...{ description: 'é'.repeat(i), label: 5 },
  }),
);

seedRandom(11);

/** Where each hotel is known: in the local cache, in Redis, as absent in the local cache, or in no cache. */
const PLACES = ['local', 'redis', 'absent', 'nowhere'] as const;
type Place = (typeof PLACES)[number];

async function open(places: Place[], maxBytes = 4 * 1024 ** 2) {
  const redis = openRedisBatch(maxBytes);
  const { cache, store, local, reader } = redis;
  const those = (of: Place) => [...places.keys()].filter((i) => places[i] === of);
  for (const i of those('local')) local.store(hotels[i]!);
  await cache.fill(those('redis').map((i) => hotels[i]!));
  for (const i of those('absent')) local.storeAbsent('channel', `ch-${i}`);
  const around = {
    beforeReply: (_round: number): unknown => true,
    requested: [] as number[],
    gaps: [] as number[],
    isLarge: false,
  };
  store.onRead = (names) => around.beforeReply(around.requested.push(names.length));

  /** Answers a batch, of which the hotels that no cache has are loaded. */
  const answer = async (numbers: number[], view: View = 'full') => {
    const body = Buffer.from(JSON.stringify({ channel_ids: numbers.map((i) => `ch-${i}`) }));
    let text = '';
    const finish = (given: Uint8Array | PartialResponse) => {
      around.isLarge = given instanceof PartialResponse && given.isLarge;
      const keys = given instanceof PartialResponse ? given.keys : [];
      around.gaps = keys.map((key) => Number(key.slice('ch-'.length)));
      const loaded = around.gaps.map((i) => (places[i] === 'absent' ? null : hotels[i]!));
      text = `${Buffer.from((given instanceof PartialResponse ? given.complete(loaded, view) : given) as Uint8Array)}`;
    };
    const lookup = local.gatherBody('channel', body, view, true)!;
    await reader.complete('channel', lookup, view, finish);
    return text;
  };
  return { ...redis, around, answer };
}

function expected(numbers: number[], places: Place[], view: View = 'full'): string {
  const found = [...new Set(numbers)].filter((i) => places[i] !== 'absent');
  return `[${found.map((i) => hotels[i]!.body(view)).join()}]`;
}

describe('a batch that the local cache holds in part', () => {
  it('is answered in the requested order, wherever each hotel is known, and fills the local cache', async () => {
    for (let round = 0; round < 60; round++) {
      // some rounds lack one place, or have one only
      const chosen = PLACES.filter(() => random(3) > 0);
      if (chosen.length === 0) continue;
      const places = hotels.map(() => chosen[random(chosen.length)]!);
      const numbers = Array.from({ length: 1 + random(250) }, () => random(HOTELS));
      const view = random(2) ? 'full' : 'narrow';
      // also without a local cache
      const { answer, local } = await open(places, random(3) === 0 ? 0 : undefined);
      expect(await answer(numbers, view)).toBe(expected(numbers, places, view));
      if (!local.isEnabled) continue;
      for (const i of numbers) {
        const ref = local.find('channel', `ch-${i}`);
        if (ref > 0) expect(local.arena.read(ref).equals(hotels[i]!.bytes)).toBe(true);
        else expect(ref).toBe(places[i] === 'absent' ? ABSENT : MISS);
        expect(ref > 0).toBe(places[i] === 'local' || places[i] === 'redis');
      }
    }
  });

  type Parts = Awaited<ReturnType<typeof open>>;
  it.each<[string, (parts: Parts) => unknown, (place: Place) => boolean]>([
    ['a change of everything', ({ window }) => window.raiseFloor(6), (place) => place === 'redis'],
    [
      'another history',
      ({ names, window }) => {
        names.prefix = 'other';
        // the labels of the first history are above those of the second
        window.beginHistory(0);
      },
      (place) => place === 'redis',
    ],
    ['a stop of the process', ({ may }) => Object.assign(may, { read: false }), () => false],
  ])('keeps nothing of a reply that is read behind %s', async (_, happens, isGap) => {
    const places = hotels.map((_, i) => PLACES[i % 3]!);
    for (const round of [1, 2]) {
      const parts = await open(places);
      parts.around.beforeReply = (now) => {
        if (now === round) happens(parts);
      };
      expect(await parts.answer(ALL)).toBe(expected(ALL, places));
      expect(parts.around.requested[0]).toBe(HOTELS / 3);
      const gaps = ALL.filter((i) => isGap(places[i]!));
      expect(parts.around.gaps).toEqual(gaps);
      const held = ALL.filter((i) => parts.local.find('channel', `ch-${i}`) !== MISS);
      expect(held).toEqual(ALL.filter((i) => places[i] !== 'redis'));
    }
  });

  it('stores a sample while the local cache is full', async () => {
    const { answer, local } = await open(hotels.map((): Place => 'redis'));
    for (let i = 0; local.arena.hasRoom; i++)
      local.store(hotel({ id: `other-${i}`, description: 'x'.repeat(1_000) }));
    const { puts } = local.arena.stats();
    await answer(ALL);
    expect(local.arena.stats().puts - puts).toBe(Math.floor(HOTELS / 32));
  });
});

describe('a batch from Redis', () => {
  it.each([1, 2])('is left to PostgreSQL if reply %i is lost', async (round) => {
    const { answer, around, counted } = await open(['redis', 'nowhere', 'redis']);
    around.beforeReply = (now) => now !== round;
    await answer([0, 1, 2, 0]);
    expect(around.gaps).toEqual([0, 1, 2]);
    expect(counted).toMatchObject({ hit: 0, miss: 3, invalid: 0 });
  });

  it('has a gap for a value that is longer than the memory for a reply', async () => {
    const { answer, around, memory, store } = await open(['redis', 'redis']);
    store.stored.set('p:h:h0', Buffer.alloc(memory.reply.length));
    await answer([0, 1]);
    expect(around.gaps).toEqual([0, 1]);
  });

  it('shows a hotel as of the day on which it is read', async () => {
    const dates = { certified_from: '2026-11-22', certified_until: '2026-11-23' };
    const [fromMs, untilMs] = [NOW_MS + DAY_MS, NOW_MS + 3 * DAY_MS];
    const { answer, around, store } = await open(['redis'], 0);
    const row = rowOf({
      id: 'h0',
      channel_id: 'ch-0',
      certification_url: 'https://badge.example/',
      ...dates,
    });
    for (const encodedMs of [fromMs - 1, fromMs])
      for (const atMs of [fromMs - 1, fromMs, untilMs - 1, untilMs]) {
        vi.useFakeTimers({ toFake: ['Date'], now: atMs });
        store.stored.set('p:h:h0', encodeHotel(row, 1, encodedMs).bytes);
        expect(await answer([0])).toBe(`[${encodeHotel(row, 1, atMs).body('full')}]`);
        expect(around.gaps).toEqual([]);
      }
  });

  it('is too large at once if the hotels in Redis are', async () => {
    const { answer, around, store } = await open(new Array<Place>(150).fill('redis'), 0);
    const numbers = Array.from({ length: 150 }, (_, i) => i);
    for (const i of numbers) {
      const row = rowOf({ id: `h${i}`, channel_id: `ch-${i}`, description: 'x'.repeat(60_000) });
      store.stored.set(`p:h:h${i}`, encodeHotel(row, 1, NOW_MS).bytes);
    }
    await answer(numbers.slice(0, 60));
    expect([around.gaps.length, around.isLarge]).toEqual([0, false]);
    await answer(numbers);
    expect([around.gaps.length > 0, around.isLarge]).toEqual([true, true]);
  });
});
