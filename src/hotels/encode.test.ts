import { expect, it } from 'vitest';
import type { EventLoop } from '../lib/event-loop.ts';
import { encodeInTurns } from './encode.ts';

it('encodes the first rows at once, and some of the others in each turn of their owner', async () => {
  const rows = Array.from({ length: 20 }, (_, i) => i);
  const encoded: number[] = [];
  const turns: unknown[] = [];
  const run = async (owner: string, size: number, work: () => void) => {
    turns.push([owner, size, encoded.length]);
    work();
  };
  await encodeInTurns(rows, 'me', { run } as unknown as EventLoop, (row) => {
    encoded.push(row);
    return row < 8 ? 64 * 1024 : 0;
  });
  // the size of a turn is that of the one before
  expect(turns).toEqual([
    ['me', 512 + (8 * 64 * 1024) / 32, 8],
    ['me', 512, 16],
  ]);
  expect(encoded).toEqual(rows);
});
