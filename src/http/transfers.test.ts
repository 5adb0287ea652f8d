import type { HttpResponse } from 'uWebSockets.js';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { bytesOf } from '../hotels/json-array.fixture.ts';
import { fakeTimers } from '../lib/clock.fixture.ts';
import {
  type ArrivingBody,
  collectBody,
  keep,
  MAX_BACKLOG_BYTES,
  MAX_BODY_BYTES,
  MAX_UNFINISHED_BYTES,
  type PendingWrite,
  release,
} from './transfers.ts';

const MIB = 1024 * 1024;

beforeEach(() => void fakeTimers());

describe('a request body', () => {
  const HALF = MAX_BODY_BYTES / 2;
  /** Bodies of half the maximum size, for each of which the whole maximum is held. */
  const MOST = MAX_UNFINISHED_BYTES / MAX_BODY_BYTES;

  let events: string[] = [];
  let open: ArrivingBody[] = [];

  /** Begins a body; returns how it arrives. */
  function begin(name: string, owner = 'me', keeps = false) {
    const client = { owner, over: false };
    let receive: (chunk: ArrayBuffer, isLast: boolean) => void;
    const response = {
      onData: (listener: typeof receive) => {
        receive = listener;
      },
      close: () => events.push(`${name}: closed`),
    } as unknown as HttpResponse;
    const body = collectBody(response, {
      done: (bytes) => events.push(`${name}: ${bytes?.length ?? 'without bytes'}`),
      late: () => events.push(`${name}: late`),
      full: () => events.push(`${name}: full`),
      client,
      keeps,
    });
    open.push(body);
    const arrive = (bytes: number, isLast = false) => receive(new ArrayBuffer(bytes), isLast);
    return { ...body, client, receive: arrive };
  }

  beforeEach(() => {
    events = [];
    open = [];
  });
  afterEach(() => {
    for (const body of open) body.end();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('a body that is too large is reported at its end, or when eight times as much has arrived', () => {
    const short = begin('short');
    short.receive(MAX_BODY_BYTES);
    short.receive(1);
    expect(events).toEqual([]);
    short.receive(1, true);
    const endless = begin('endless');
    for (let i = 0; i < 16; i++) endless.receive(HALF);
    expect(events).toEqual(['short: without bytes']);
    endless.receive(1);
    for (let i = 1; i < 16; i++) endless.receive(HALF);
    expect(events.slice(1)).toEqual(['endless: without bytes']);
    // the response waits for the end of the iteration, which does not come while the client sends fast enough
    endless.receive(HALF);
    expect(events.slice(2)).toEqual(['endless: closed']);
    endless.client.over = true;
    endless.receive(1);
    expect(events).toHaveLength(3);
  });

  it('a body that is too large and does not end is reported as such, not as slow', () => {
    begin('a').receive(MAX_BODY_BYTES + 1);
    vi.advanceTimersByTime(60_000);
    expect(events).toEqual(['a: without bytes']);
  });

  it.each([
    [2_048, 1, ['a: 2048']],
    [2_048, 512, ['a: 1048576']],
    [2_049, 1, ['a: closed']],
    [2_049, 1_023, ['a: closed']],
    [2_049, 1_024, ['a: without bytes']],
  ])('of a client whose body arrives in %i pieces of %i bytes', (count, bytes, expected) => {
    const body = begin('a');
    for (let i = 1; i <= count; i++) body.receive(bytes, i === count);
    expect(events).toEqual(expected);
  });

  it('a body that is dropped or has ended holds nothing, and only the end of the dropped one is reported', () => {
    for (const [how, more] of [
      ['drop', HALF - 1],
      ['end', 1],
    ] as const) {
      for (let i = 0; i < 2 * MOST; i++) {
        const body = begin(how);
        body.receive(HALF);
        body[how]();
        body.receive(more);
      }
      expect(events).toEqual([]);
      const last = begin('last');
      last[how]();
      last.receive(1, true);
      expect(events.splice(0)).toEqual(how === 'drop' ? ['last: without bytes'] : []);
    }
  });

  it('beyond the limit, the oldest body of the key that holds most is rejected', () => {
    const first = begin('first of the other', 'other');
    first.receive(HALF);
    const all = Array.from({ length: MOST }, (_, i) => begin(`${i}`));
    for (const body of all.slice(0, -1)) body.receive(HALF);
    expect(events).toEqual([]);
    all.at(-1)!.receive(HALF);
    begin('second of the other', 'other').receive(HALF);
    expect(events).toEqual(['0: full', '1: full']);
    first.receive(1, true);
    expect(events.at(-1)).toBe(`first of the other: ${HALF + 1}`);
  });

  it('whole bodies that are kept count until their end', () => {
    const all = Array.from({ length: MOST }, (_, i) => begin(`${i}`, 'me', true));
    for (const body of all) body.receive(HALF, true);
    vi.advanceTimersByTime(60_000);
    expect(events.splice(0)).toEqual(all.map((_, i) => `${i}: ${HALF}`));
    begin('next').receive(HALF);
    expect(events.splice(0)).toEqual(['0: full']);
    all[1]!.end();
    begin('last').receive(HALF);
    expect(events).toEqual([]);
  });
});

describe('a response body', () => {
  let kept: { name: string; pending: PendingWrite }[] = [];
  let givenUp: string[] = [];

  /** Keeps a response of this size, like an exchange. */
  function keepOne(name: string, bytes: number, owner = 'me'): PendingWrite {
    const pending = keep(new Uint8Array(bytes).fill(7), true, owner, () => {
      givenUp.push(name);
      release(pending);
    });
    kept.push({ name, pending });
    return pending;
  }

  beforeEach(() => {
    kept = [];
    givenUp = [];
  });
  afterEach(() => {
    for (const { pending } of kept) release(pending);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('the backlog keeps the bytes until they are given back', () => {
    for (const bytes of [1, MIB, 3 * MIB]) {
      const pending = keepOne('a', bytes);
      expect(bytesOf(pending.body).equals(Buffer.alloc(bytes, 7))).toBe(true);
      release(pending);
      release(pending);
    }
  });

  it('a client below 16 KB/s is disconnected after 10 s, and a faster one is not', () => {
    const [slow, steady] = [keepOne('slow', 2 * MIB), keepOne('steady', 2 * MIB)];
    for (let second = 1; second <= 35; second++) {
      slow.pace.moved(second * 15 * 1024);
      steady.pace.moved(second * 20 * 1024);
      vi.advanceTimersByTime(1_000);
      expect(givenUp).toEqual(second < 10 ? [] : ['slow']);
    }
  });

  it('immutable bytes are neither copied nor counted in the backlog', () => {
    const page = new Uint8Array(MAX_BACKLOG_BYTES / 2);
    const readers = Array.from({ length: 4 }, (_, i) => {
      const reader: PendingWrite = keep(page, false, '', () => {
        givenUp.push(`${i}`);
        release(reader);
      });
      return reader;
    });
    keepOne('an answer', 16 * MIB);
    expect(givenUp).toEqual([]);
    expect((readers[0]!.body as Uint8Array).buffer).toBe(page.buffer);
    vi.advanceTimersByTime(10_500);
    expect(givenUp).toEqual(['0', '1', '2', '3', 'an answer']);
  });

  it('a full backlog disconnects clients of the key with the most bytes, those first that have waited longest', () => {
    const each = 16 * MIB;
    keepOne('first', each, 'other');
    for (let i = 1; i < MAX_BACKLOG_BYTES / each; i++) keepOne(`${i}`, each, 'flood');
    keepOne('last', 3 * each, 'other');
    expect(givenUp).toEqual(['1', '2', '3']);
  });
});
