import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { giveBack, keep, type Leftover, MAX_KEPT_BYTES } from './write-backlog.ts';

const MIB = 1024 * 1024;
let kept: { name: string; leftover: Leftover }[] = [];
let givenUp: string[] = [];

/** Keeps an answer of so many bytes, as an exchange does. */
function keepOne(name: string, bytes: number): Leftover {
  const leftover = keep(new Uint8Array(bytes).fill(7), true, () => {
    givenUp.push(name);
    giveBack(leftover);
  });
  kept.push({ name, leftover });
  return leftover;
}

beforeEach(() => {
  vi.useFakeTimers();
  kept = [];
  givenUp = [];
});
afterEach(() => {
  for (const { leftover } of kept) giveBack(leftover);
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

it('what is kept are the bytes, until they are given back', () => {
  for (const bytes of [1, MIB, 3 * MIB]) {
    const leftover = keepOne('a', bytes);
    expect(leftover.bytes.length).toBe(bytes);
    expect([leftover.bytes[0], leftover.bytes.at(-1)]).toEqual([7, 7]);
    giveBack(leftover);
    giveBack(leftover);
  }
});

it('two that are kept at once share no bytes, whatever was given back before', () => {
  giveBack(keepOne('a', MIB));
  const [b, c] = [keepOne('b', MIB), keepOne('c', MIB)];
  b.bytes.fill(1);
  expect(c.bytes.every((byte) => byte === 7)).toBe(true);
});

it('a client that takes less than 16 KB/s is given up after 10 s, one that takes more is not', () => {
  const [slow, steady] = [keepOne('slow', 2 * MIB), keepOne('steady', 2 * MIB)];
  for (let second = 1; second <= 35; second++) {
    slow.taken += 15 * 1024;
    steady.taken += 20 * 1024;
    vi.advanceTimersByTime(1_000);
    expect(givenUp).toEqual(second < 10 ? [] : ['slow']);
  }
});

it('one that was quick and stops is given up within 20 s', () => {
  const leftover = keepOne('stops', 2 * MIB);
  leftover.taken = MIB;
  vi.advanceTimersByTime(10_500);
  expect(givenUp).toEqual([]);
  vi.advanceTimersByTime(10_500);
  expect(givenUp).toEqual(['stops']);
});

it('bytes that nobody overwrites are not copied, and take none of the room', () => {
  const page = new Uint8Array(MAX_KEPT_BYTES / 2);
  const readers = Array.from({ length: 4 }, (_, i) => {
    const reader: Leftover = keep(page, false, () => {
      givenUp.push(`${i}`);
      giveBack(reader);
    });
    return reader;
  });
  keepOne('an answer', 16 * MIB);
  expect(givenUp).toEqual([]);
  expect(readers[0]!.bytes.buffer).toBe(page.buffer);
  vi.advanceTimersByTime(10_500);
  expect(givenUp).toEqual(['0', '1', '2', '3', 'an answer']);
});

it('when there is no room the one that has waited longest makes it', () => {
  const each = 16 * MIB;
  const fit = MAX_KEPT_BYTES / each;
  for (let i = 0; i < fit; i++) keepOne(`${i}`, each);
  expect(givenUp).toEqual([]);
  keepOne('one more', each);
  expect(givenUp).toEqual(['0']);
  keepOne('a small one', MIB);
  expect(givenUp).toEqual(['0', '1']);
});
