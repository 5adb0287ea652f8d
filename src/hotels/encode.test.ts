import { expect, it } from 'vitest';
import type { EventLoop } from '../lib/event-loop.ts';
import { encodeInTurns } from './encode.ts';

it('encodes 128 KiB at once, and as much in each turn of their owner', async () => {
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
    ['rows of me', 512 + (2 * 64 * 1024) / 32, 2],
    ['rows of me', 512 + (2 * 64 * 1024) / 32, 4],
    ['rows of me', 512 + (8 * 16 * 1024) / 32, 12],
  ]);
  expect(encoded).toEqual(rows);
});
