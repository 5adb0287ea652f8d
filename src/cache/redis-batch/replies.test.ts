import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { encodeAbsence } from '../../hotels/encode.ts';
import type { Entry } from '../../hotels/entry.ts';
import { Window } from '../../log/window.ts';
import { replyOf } from '../../redis/store.fixture.ts';
import { hotel, NOW_MS } from '../arena/arena.fixture.ts';
import { CacheMemory } from '../memory.ts';
import { absenceOf } from '../redis-hotel-cache.ts';
import { follow, type Pointed, readEntries, requestAllMissed } from './missed.fixture.ts';
import { SharedReply } from './replies.ts';

const memory = new CacheMemory(0);
const window = new Window(memory.window);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: NOW_MS });
  window.beginHistory(0);
});
afterEach(() => {
  vi.useRealTimers();
});

const entries = Array.from({ length: 12 }, (_, i) =>
  hotel({
    id: `h${i}`,
    channel_id: `ch-${i}`,
    registry_id: i % 2 ? String(i) : null,
    description: 'é'.repeat(i),
  }),
);

const absence = (i: number, label: number) => absenceOf('channel', `ch-${i}`, label);

/** Returns the table for channel ids `ch-<i>` that point to these ids; null: no hotel, undefined: unknown. */
function pointTo(ids: (string | null | undefined)[]): Pointed {
  return pointWith(
    ids.map((id, i) => (id === null ? absence(i, 1) : id === undefined ? undefined : Buffer.from(`>${id}`))),
  );
}

/** Returns the table for channel ids `ch-<i>` that have these values in Redis. */
function pointWith(values: (Buffer | undefined)[]): Pointed {
  const keys = values.map((_, i) => `ch-${i}`);
  return follow(memory, 'channel', requestAllMissed(memory, 'channel', keys, '7:c:'), values);
}

const reply = (...values: (Buffer | null)[]) => replyOf(values);

interface Answer {
  text: string;
  gaps: readonly string[];
  hits: number;
}

/** Returns the response to this reply. */
function read(pointed: Pointed, bytes: Buffer): Answer {
  const { response, pending, hits } = readEntries(memory, pointed, bytes);
  const partial = pending.partialResponse();
  const text = `${response ? Buffer.from(response) : partial.complete([], 'full')}`;
  return { text, gaps: partial.keys, hits };
}

describe('the entries of a batch', () => {
  it.each<[string, Buffer]>([
    ['is of another hotel', entries[1]!.bytes],
    ['carries another channel id', hotel({ id: 'h0', channel_id: 'other' }).bytes],
    ['carries none', hotel({ id: 'h0' }).bytes],
    ['is an absence', encodeAbsence('id', 'h0', 3).bytes],
    ['is empty', Buffer.alloc(0)],
    ['is short', Buffer.alloc(79)],
    ['is foreign', Buffer.alloc(2_000, 'x')],
    ['is cut off', entries[0]!.bytes.subarray(0, -1)],
    ['is larger than any hotel', Buffer.alloc(20 * 1024 ** 2, 'x')],
  ])('an entry that %s is ignored', (_, bytes) => {
    expect(read(pointTo(['h0', 'h1']), reply(bytes, entries[1]!.bytes))).toMatchObject({
      text: `[${entries[1]!.body('full')}]`,
      gaps: ['ch-0'],
      hits: 1,
    });
  });

  it('longer than the memory for a reply are not read', () => {
    const done = vi.fn();
    const onLarge = vi.fn();
    const shared = new SharedReply(memory, 1, done, onLarge);
    const value = Buffer.alloc(memory.reply.length);
    for (const part of [Buffer.from(`*1\r\n$${value.length}\r\n`), value])
      expect(shared.take(part, 0)).toBe(-1);
    expect(shared.take(Buffer.from('\r\n'), 0)).toBe(2);
    shared.complete();
    expect(onLarge).toHaveBeenCalledOnce();
    expect(done).not.toHaveBeenCalled();
  });

  it('an entry with any one byte changed is ignored', () => {
    const pointed = pointTo(['h0']);
    for (let place = 0; place < entries[0]!.bytes.length; place++) {
      const damaged = Buffer.from(entries[0]!.bytes);
      damaged[place]! ^= 1 + (place % 255);
      expect(read(pointed, reply(damaged)).gaps).toEqual(['ch-0']);
    }
  });

  it('an entry is ignored before and after the days for which it is valid', () => {
    const day = 86_400_000;
    const certified = hotel({
      id: 'h0',
      channel_id: 'ch-0',
      certified_from: '2026-11-22',
      certified_until: '2026-11-23',
      certification_url: 'https://example.com',
    });
    const gapsAt = (entry: Entry, atMs: number) => {
      vi.setSystemTime(atMs);
      return read(pointTo(['h0']), reply(entry.bytes)).gaps.length;
    };
    const during = certified.at(NOW_MS + day);
    const after = certified.at(NOW_MS + 3 * day);
    const turns = NOW_MS + day;
    expect([gapsAt(certified, turns - 1), gapsAt(certified, turns)]).toEqual([0, 1]);
    expect([-1, 0, 2 * day - 1, 2 * day].map((more) => gapsAt(during, turns + more))).toEqual([1, 0, 0, 1]);
    expect([-1, 0].map((more) => gapsAt(after, turns + 2 * day + more))).toEqual([1, 0]);
  });
});

describe('an absence', () => {
  const isUsed = (value: Buffer) => pointWith([value]).pending.partialResponse().keys.length === 0;

  it('of another key, or with a wrong byte, is ignored', () => {
    const value = absence(0, 7);
    const wrong = Array.from(value, (_, i) => {
      const changed = Buffer.from(value);
      changed[i]! ^= 1;
      return changed;
    });
    const others = [
      absence(1, 7),
      absenceOf('registry', 'ch-0', 7),
      Buffer.concat([Buffer.from('-'), absenceOf('id', 'ch-0', 7)]),
      Buffer.concat([Buffer.from('-'), hotel({ id: 'h0', channel_id: 'ch-0', label: 7 }).bytes]),
      ...['-', '-7', '7', '>', ''].map((text) => Buffer.from(text)),
      value.subarray(0, -1),
      Buffer.concat([value, Buffer.from('0')]),
    ];
    expect([...wrong, ...others].filter(isUsed)).toEqual([]);
    expect(isUsed(value)).toBe(true);
  });
});
