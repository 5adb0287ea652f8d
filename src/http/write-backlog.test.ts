import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { bytesOf } from '../hotels/json-array.fixture.ts';
import { fakeTimers } from '../lib/clock.fixture.ts';
import { keep, MAX_BACKLOG_BYTES, type PendingWrite, release } from './write-backlog.ts';

const MIB = 1024 * 1024;
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
  fakeTimers();
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
    slow.taken.bytes += 15 * 1024;
    steady.taken.bytes += 20 * 1024;
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
