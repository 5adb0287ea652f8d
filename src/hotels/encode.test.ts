import { setImmediate as nextIteration } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { showMonotonic } from '../lib/clock.fixture.ts';
import { EventLoop } from '../lib/event-loop.ts';
import { encodeInTurns, MAGIC, magicOf } from './encode.ts';
import { Hotel } from './hotel.ts';

it('encodes 128 KiB in each turn of their owner', async () => {
  const rows = Array.from({ length: 20 }, (_, i) => i);
  const encoded: number[] = [];
  const turns: unknown[] = [];
  const run = async (owner: string, size: number, work: () => void) => {
    turns.push([owner, size, encoded.length]);
    work();
  };
  await encodeInTurns(rows, 'me', { run } as unknown as EventLoop, (row) => {
    encoded.push(row);
    return row < 4 ? 64 * 1024 : 16 * 1024;
  });
  // the size of a turn is that of the one before
  expect(turns).toEqual([
    ['rows of me', 512, 0],
    ['rows of me', 512 + (2 * 64 * 1024) / 32, 2],
    ['rows of me', 512 + (2 * 64 * 1024) / 32, 4],
    ['rows of me', 512 + (8 * 16 * 1024) / 32, 12],
  ]);
  expect(encoded).toEqual(rows);
});

it('encodes for 10 ms of an iteration of the event loop, however many callers have rows', async () => {
  let monotonic = 0;
  showMonotonic(() => monotonic);
  const eventLoop = new EventLoop();
  let encoded = 0;
  const encode = () => {
    monotonic += 4;
    encoded++;
    return 1;
  };
  const all = ['me', 'you', 'they'].map((owner) => encodeInTurns([1, 2, 3, 4], owner, eventLoop, encode));
  const byIteration = [encoded];
  while (encoded < 12) {
    await nextIteration();
    byIteration.push(encoded - byIteration.reduce((sum, some) => sum + some));
  }
  await Promise.all(all);
  expect(Math.max(...byIteration)).toBe(3);
});

it('the magic number of entries is another one with other fields or in another order', () => {
  const fields = Object.keys(Hotel.properties);
  const others = [fields.toReversed(), [...fields, 'phone']].map(magicOf);
  expect(new Set([MAGIC, ...others]).size).toBe(3);
});
