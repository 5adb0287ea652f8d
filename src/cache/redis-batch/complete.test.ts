import { describe, expect, it } from 'vitest';
import type { Entry, View } from '../../hotels/entry.ts';
import { Window } from '../../log/window.ts';
import type { ReplyReader } from '../../redis/reply-parser.ts';
import { replyOf } from '../../redis/store.fixture.ts';
import { hotel } from '../arena/arena.fixture.ts';
import { ABSENT, MISS } from '../arena/arena.ts';
import { localCacheIn } from '../local-cache.fixture.ts';
import { CacheMemory } from '../memory.ts';
import { PartialResponse } from '../partial-response.ts';
import { absenceOf } from '../redis-hotel-cache.ts';
import { RedisBatchReader } from './redis-batch.ts';

const HOTELS = 300;
const hotels = Array.from({ length: HOTELS }, (_, i) =>
  hotel({
    id: `h${i}`,
    channel_id: `ch-${i}`,
    registry_id: i % 3 ? String(i) : null,
    description: 'é'.repeat(i),
    label: 5,
  }),
);

let state = 11;
function random(below: number): number {
  state = (state * 1_103_515_245 + 12_345) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

/** Where each hotel is known: in the local cache, in Redis, as absent in Redis, or in no cache. */
type Place = 'local' | 'redis' | 'absent' | 'nowhere';

function open(places: Place[], maxBytes = 4 * 1024 ** 2) {
  const memory = new CacheMemory(maxBytes);
  const window = new Window(memory.window);
  window.lowerFloor(0);
  const local = localCacheIn(memory);
  for (const [i, place] of places.entries()) if (place === 'local') local.store(hotels[i]!);
  const requested: number[] = [];
  let gaps: readonly string[] = [];
  const around = { beforeReply: (_round: number) => {}, mayRead: true, prefix: '' };
  /** Replies as Redis would, in pieces. */
  const sendMget = async (command: Buffer, keys: number, reader: ReplyReader) => {
    const names = command
      .toString()
      .split('\r\n')
      .filter((line) => /^[ch]:/.test(line));
    expect(names).toHaveLength(keys);
    const values = names.map((name) => {
      const i = Number(name.replace(/\D/g, ''));
      if (name.startsWith('h:')) return hotels[i]!.bytes;
      if (places[i] === 'redis') return Buffer.from(`>h${i}`);
      return places[i] === 'absent' ? absenceOf('channel', `ch-${i}`, 5) : undefined;
    });
    const reply = replyOf(values);
    requested.push(keys);
    await Promise.resolve();
    around.beforeReply(requested.length);
    for (let at = 0; at < reply.length; ) {
      const end = Math.min(reply.length, at + 1 + random(5_000));
      expect(reader.take(reply.subarray(at, end), 0)).toBe(end === reply.length ? end - at : -1);
      at = end;
    }
    reader.complete();
    return true;
  };
  const prefixOf = (namespace: string) => around.prefix + (namespace === 'id' ? 'h:' : 'c:');
  const reader = new RedisBatchReader({
    redis: { sendMget } as never,
    cache: { prefixOf } as never,
    local,
    memory,
    mayRead: () => around.mayRead,
    count: () => {},
  });
  const answer = async (numbers: number[], view: View) => {
    const body = Buffer.from(JSON.stringify({ channel_ids: numbers.map((i) => `ch-${i}`) }));
    const lookup = local.gatherBody('channel', body, view, true)!;
    let text = '';
    const loaded = (key: string) => byChannel(key, places);
    const finish = (given: Uint8Array | PartialResponse) => {
      gaps = given instanceof PartialResponse ? given.keys : [];
      const whole = given instanceof PartialResponse ? given.complete(given.keys.map(loaded), view) : given;
      text = Buffer.from(whole as Uint8Array).toString();
    };
    await reader.complete('channel', lookup, view, finish);
    return text;
  };
  return {
    local,
    window,
    requested,
    around,
    answer,
    loadedKeys: () => gaps,
  };
}

function byChannel(key: string, places: Place[]): Entry | null {
  const i = Number(key.slice('ch-'.length));
  return places[i] === 'absent' ? null : hotels[i]!;
}

function expected(numbers: number[], places: Place[], view: View): string {
  const found = [...new Set(numbers)].filter((i) => places[i] !== 'absent');
  return `[${found.map((i) => hotels[i]!.body(view)).join()}]`;
}

const PLACES: Place[] = ['local', 'redis', 'absent', 'nowhere'];

describe('a batch that the local cache holds in part', () => {
  it('is answered in the requested order, wherever each hotel is known', async () => {
    for (let round = 0; round < 60; round++) {
      // some rounds lack one place, or have one only
      const chosen = PLACES.filter(() => random(3) > 0);
      if (chosen.length === 0) continue;
      const places = hotels.map(() => chosen[random(chosen.length)]!);
      const numbers = Array.from({ length: 1 + random(250) }, () => random(HOTELS));
      const view = random(2) ? 'full' : 'narrow';
      // also without a local cache
      const { answer } = open(places, random(3) === 0 ? 0 : undefined);
      expect(await answer(numbers, view)).toBe(expected(numbers, places, view));
    }
  });

  it('fills the local cache, which then holds all of it', async () => {
    const places = hotels.map((_, i) => PLACES[i % 3]!);
    const all = [...hotels.keys()];
    const { answer, requested, local } = open(places);
    expect(await answer(all, 'full')).toBe(expected(all, places, 'full'));
    expect(requested).toEqual([HOTELS * (2 / 3), HOTELS / 3]);
    for (const i of all) {
      const ref = local.find('channel', `ch-${i}`);
      if (places[i] === 'absent') expect(ref).toBe(ABSENT);
      else expect(Buffer.from(local.arena.read(ref)).equals(hotels[i]!.bytes)).toBe(true);
    }
    const again = local.gatherBody(
      'channel',
      Buffer.from(JSON.stringify({ channel_ids: all.map((i) => `ch-${i}`) })),
      'full',
      true,
    )!;
    expect(again.misses).toBe(0);
  });

  it.each([1, 2])('stores nothing that has changed since its request, before reply %i', async (changed) => {
    const places = hotels.map((_, i) => PLACES[1 + (i % 2)]!);
    const all = [...hotels.keys()];
    const { answer, around, window, local, loadedKeys } = open(places);
    const isChanged = (i: number) => i % 3 === 0;
    around.beforeReply = (round) => {
      if (round !== changed) return;
      for (const i of all.filter(isChanged)) {
        window.raise('id', `h${i}`, 6);
        window.raise('channel', `ch-${i}`, 6);
      }
    };
    expect(await answer(all, 'full')).toBe(expected(all, places, 'full'));
    // absences are known with the first reply; keys of one bucket change together
    const isLoaded = (i: number) =>
      places[i] === 'redis'
        ? !window.covers('id', `h${i}`, 5)
        : changed === 1 && !window.covers('channel', `ch-${i}`, 5);
    expect(all.filter((i) => isChanged(i) && places[i] === 'redis').every(isLoaded)).toBe(true);
    const loaded = all.filter(isLoaded).map((i) => `ch-${i}`);
    expect(loadedKeys()).toEqual(changed === 1 ? expect.arrayContaining(loaded) : loaded);
    for (const i of all) expect([i, local.find('channel', `ch-${i}`) === MISS]).toEqual([i, isLoaded(i)]);
  });

  it.each([1, 2])('uses nothing of another history, which began before reply %i', async (changed) => {
    const places = hotels.map((_, i) => PLACES[i % 3]!);
    const all = [...hotels.keys()];
    const { answer, around, window, local, loadedKeys } = open(places);
    around.beforeReply = (round) => {
      if (round !== changed) return;
      around.prefix = 'other:';
      // the labels of the first history are above those of the second
      window.beginHistory(0);
    };
    expect(await answer(all, 'full')).toBe(expected(all, places, 'full'));
    expect(loadedKeys()).toEqual(all.filter((i) => places[i] !== 'local').map((i) => `ch-${i}`));
    expect(all.filter((i) => places[i] === 'redis' && local.find('channel', `ch-${i}`) !== MISS)).toEqual([]);
  });

  it('stores a sample while the local cache is full', async () => {
    const places = hotels.map((): Place => 'redis');
    const { answer, local } = open(places);
    for (let i = 0; local.arena.hasRoom; i++)
      local.store(hotel({ id: `other-${i}`, description: 'x'.repeat(1_000) }));
    const { puts } = local.arena.stats();
    await answer([...hotels.keys()], 'full');
    expect(local.arena.stats().puts - puts).toBe(Math.floor(HOTELS / 32));
  });
});

it('what Redis supplies is not stored if it may not be read any more at its reply: the process may have been stopped', async () => {
  const places: Place[] = ['redis', 'absent', 'local'];
  const { local, around, answer } = open(places);
  around.beforeReply = () => {
    around.mayRead = false;
  };
  const all = places.map((_, i) => i);
  expect(await answer(all, 'full')).toBe(expected(all, places, 'full'));
  const held = () => all.map((i) => local.find('channel', `ch-${i}`) !== MISS);
  expect(held()).toEqual([false, false, true]);
  around.mayRead = true;
  around.beforeReply = () => {};
  await answer(all, 'full');
  expect(held()).toEqual([true, true, true]);
});
