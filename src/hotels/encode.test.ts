import { expect, it } from 'vitest';
import type { EventLoop } from '../lib/event-loop.ts';
import { encodeInTurns } from './encode.ts';

it('encodes the first rows at once, and some of the others in each turn of their owner', async () => {
  const turns: { owner: string; size: number; take: () => void }[] = [];
  const run = (owner: string, size: number, work: () => void) =>
    new Promise<void>((resolve) => {
      const take = () => {
        work();
        resolve();
      };
      turns.push({ owner, size, take });
    });
  const rows = Array.from({ length: 20 }, (_, i) => i);
  const encoded: number[] = [];
  let isOver = false;
  const encoding = encodeInTurns(rows, 'me', { run } as unknown as EventLoop, (row) => {
    encoded.push(row);
    return row < 8 ? 64 * 1024 : 0;
  }).then(() => {
    isOver = true;
  });
  const steps: unknown[] = [];
  while (!isOver) {
    await Promise.resolve();
    const turn = turns.shift();
    if (!turn) continue;
    steps.push([turn.owner, turn.size, encoded.length]);
    turn.take();
  }
  await encoding;
  // the size of a turn is that of the one before
  expect(steps).toEqual([
    ['me', 512 + (8 * 64 * 1024) / 32, 8],
    ['me', 512, 16],
  ]);
  expect(encoded).toEqual(rows);
});
