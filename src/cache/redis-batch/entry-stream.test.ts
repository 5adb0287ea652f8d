import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { encodeAbsence } from '../../hotels/encode.ts';
import type { Entry } from '../../hotels/entry.ts';
import { Window } from '../../log/window.ts';
import { replyOf } from '../../redis/store.fixture.ts';
import { hotel, NOW_MS } from '../arena/arena.fixture.ts';
import { CacheMemory } from '../memory.ts';
import { absenceOf } from '../redis-hotel-cache.ts';
import { EntryStream } from './entry-stream.ts';
import { requestAllMissed } from './missed.fixture.ts';
import { PendingKeys } from './pending-keys.ts';

const memory = new CacheMemory(0);
const window = new Window(memory.window);
const CHANNEL = 1;

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
function pointTo(ids: (string | null | undefined)[]): PendingKeys {
  return pointWith(
    ids.map((id, i) => (id === null ? absence(i, 1) : id === undefined ? undefined : Buffer.from(`>${id}`))),
  );
}

/** Returns the table for channel ids `ch-<i>` that have these values in Redis. */
function pointWith(values: (Buffer | undefined)[]): PendingKeys {
  const { wasm, bytes, words } = memory;
  const keys = values.map((_, i) => `ch-${i}`);
  const count = requestAllMissed(memory, 'channel', keys, '7:c:');
  const table = memory.takePending();
  let at = 0;
  const places = values.flatMap((value) => {
    if (value === undefined) return [0, -1];
    bytes.set(value, wasm.POINTERS.value + at);
    at += value.length;
    return [at - value.length, value.length];
  });
  words.set(places, wasm.PLACES.value / 4);
  bytes.set(table, wasm.SCRATCH.value);
  wasm.requestEntries(count, table.length, CHANNEL, memory.writePrefix('7:h:'), 0, 0);
  return new PendingKeys('channel', count, memory.takePending());
}

const reply = (...values: (Buffer | null)[]) => replyOf(values);

interface Answer {
  text: string;
  gaps: readonly string[];
  hits: number;
}

/** Returns the response when the reply arrives in these chunks; the last may be longer than the reply. */
function read(
  pending: PendingKeys,
  chunks: Buffer[],
  view: 'full' | 'narrow' = 'full',
): Answer & { rest: number } {
  let answer: Answer | undefined;
  const stream = new EntryStream(memory, pending, view, ({ response, pending: left, hits }) => {
    const partial = left.partialResponse();
    answer = {
      text: `${response ? Buffer.from(response) : partial.complete([], view)}`,
      gaps: partial.keys,
      hits,
    };
  });
  const last = chunks.pop()!;
  for (const chunk of chunks) expect(stream.take(chunk, 0)).toBe(-1);
  const end = stream.take(last, 0);
  expect(end).toBeGreaterThan(0);
  stream.complete();
  return { ...answer!, rest: last.length - end };
}

function arrayOf(view: 'full' | 'narrow', ...found: Entry[]): string {
  return `[${found.map((entry) => entry.body(view)).join()}]`;
}

const ids = entries.map(({ id }) => id);
const bytesOf = (...numbers: number[]) => numbers.map((i) => entries[i]!.bytes);

describe('the entries of a batch', () => {
  it.each([
    ['no values', Buffer.from('*0\r\n')],
    ['null', Buffer.from('*-1\r\n')],
    ['too few values', reply(...bytesOf(0))],
    ['too many values', reply(...bytesOf(0, 1, 2, 3))],
    ['a line without an end', Buffer.alloc(100, '*1')],
    ['a length without an end', Buffer.from(`*3\r\n$${'1'.repeat(100)}`)],
  ])('of which the reply has %s end the connection', (_, bytes) => {
    const stream = new EntryStream(memory, pointTo(['h0', 'h1', null, 'h2']), 'full', () => {});
    expect(() => stream.take(bytes, 0)).toThrow('unexpected reply');
  });

  it('may be cut in two at any byte, and the bytes behind the reply are left', () => {
    const pending = pointTo(ids.slice(0, 3));
    const stream = Buffer.concat([reply(...bytesOf(0, 1, 2)), Buffer.from('*1\r\n')]);
    const expected = { text: arrayOf('full', ...entries.slice(0, 3)), gaps: [], hits: 3 };
    for (let cut = 1; cut < stream.length - 4; cut++) {
      const chunks = [stream.subarray(0, cut), stream.subarray(cut)];
      expect(read(pending, chunks)).toEqual({ ...expected, rest: 4 });
    }
  });

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
    const pending = pointTo(['h0', 'h1']);
    const all = reply(bytes, entries[1]!.bytes);
    const chunks: Buffer[] = [];
    for (let at = 0; at < all.length; at += 65_536) chunks.push(all.subarray(at, at + 65_536));
    expect(read(pending, chunks)).toMatchObject({
      text: arrayOf('full', entries[1]!),
      gaps: ['ch-0'],
      hits: 1,
    });
  });

  it('never go beyond their memory, behind which the window is', () => {
    const { namespace, count, table } = pointTo(['h0', 'h1']);
    const known = memory.takeHits(Buffer.alloc(9 * 1024 ** 2, 'x'))!;
    const stream = new EntryStream(memory, new PendingKeys(namespace, count, table, known), 'full', () => {});
    expect(() => stream.take(reply(...bytesOf(0, 1)), 0)).toThrow('unreachable');
    memory.releaseHits(known);
    expect(memory.outputBytes).toBeLessThan(known.length / 2);
    expect(memory.window.every((cell) => cell === 0)).toBe(true);
  });

  it('are not read on after a wrong reply, whose values would go beyond the table', () => {
    const stream = new EntryStream(memory, pointTo(['h0', 'h1']), 'full', () => {});
    expect(() => stream.take(Buffer.from('*9\r\n'), 0)).toThrow('unexpected reply');
    expect(() => stream.take(Buffer.from('$-1\r\n'.repeat(9)), 0)).toThrow('unreachable');
  });

  it('an entry with any one byte changed is ignored', () => {
    const pending = pointTo(['h0']);
    for (let place = 0; place < entries[0]!.bytes.length; place++) {
      const damaged = Buffer.from(entries[0]!.bytes);
      damaged[place]! ^= 1 + (place % 255);
      expect(read(pending, [reply(damaged)]).gaps).toEqual(['ch-0']);
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
      return read(pointTo(['h0']), [reply(entry.bytes)]).gaps.length;
    };
    const during = certified.at(NOW_MS + day);
    const after = certified.at(NOW_MS + 3 * day);
    const turns = NOW_MS + day;
    expect([gapsAt(certified, turns - 1), gapsAt(certified, turns)]).toEqual([0, 1]);
    expect([-1, 0, 2 * day - 1, 2 * day].map((more) => gapsAt(during, turns + more))).toEqual([1, 0, 0, 1]);
    expect([-1, 0].map((more) => gapsAt(after, turns + 2 * day + more))).toEqual([1, 0]);
  });

  it('a change while the reply arrives counts for the entries that are still to come', () => {
    const pending = pointTo(['h0', 'h1']);
    const all = reply(...bytesOf(0, 1));
    const firstEnd = all.length - entries[1]!.bytes.length;
    let gaps: readonly string[] = [];
    const stream = new EntryStream(memory, pending, 'full', ({ pending: left }) => {
      gaps = left.partialResponse().keys;
    });
    expect(stream.take(all.subarray(0, firstEnd), 0)).toBe(-1);
    for (const id of ['h0', 'h1']) window.raise('id', id, 2);
    expect(stream.take(all, firstEnd)).toBe(all.length);
    stream.complete();
    expect(gaps).toEqual(['ch-1']);
  });
});

describe('an absence', () => {
  const isUsed = (value: Buffer) => pointWith([value]).partialResponse().keys.length === 0;

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

describe('in place of the reply', () => {
  it('an error reply is thrown when it is complete', () => {
    const stream = new EntryStream(memory, pointTo(['h0']), 'full', () => expect.unreachable());
    const error = Buffer.from('-LOADING Redis is loading\r\n*1\r\n');
    expect(stream.take(error.subarray(0, 5), 0)).toBe(-1);
    expect(stream.take(error, 5)).toBe(error.length - 4);
    expect(() => stream.complete()).toThrow('LOADING Redis is loading');
  });

  it.each(['+OK\r\n', '$3\r\nabc\r\n', '*1\r\n:5\r\n', ':1\r\n'])(
    '%j throws, which ends the connection',
    (text) => {
      const stream = new EntryStream(memory, pointTo(['h0']), 'full', () => expect.unreachable());
      expect(() => stream.take(Buffer.from(text), 0)).toThrow('unexpected reply to MGET');
    },
  );
});
