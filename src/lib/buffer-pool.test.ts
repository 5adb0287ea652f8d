import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { BufferPool } from './buffer-pool.ts';

it('copies into buffers of its sizes that are not in use, and allocates the rest beside them', () => {
  const pool = new BufferPool([1_000, 2_000], 8_000);
  // the first is much smaller than a buffer, the last larger
  const bodies = [249, 250, 600, 1_000, 1_001, 1_500, 2_000, 2_001].map((length) => randomBytes(length));
  const copies = bodies.map((body) => pool.copy(body));
  expect(copies).toEqual(bodies);
  const pooled = copies.slice(1, -1);
  expect(pooled.map((copy) => copy.buffer.byteLength)).toEqual(
    [1, 1, 1, 2, 2, 2].map((size) => size * 1_000),
  );
  expect(new Set(pooled.map((copy) => copy.buffer)).size).toBe(pooled.length);
  const foreign = [copies[0]!, copies.at(-1)!, Buffer.allocUnsafeSlow(1_000)];
  for (const buffer of foreign) pool.release(buffer);
  for (const size of [1_000, 2_000])
    expect(foreign.map(({ buffer }) => buffer)).not.toContain(pool.copy(randomBytes(size)).buffer);
});

it('reuses buffers that were given back, and keeps at most the configured bytes of each size', () => {
  const pool = new BufferPool([1_000, 2_000], 2_000);
  const lengths = [600, 700, 800, 1_500, 1_600];
  const copies = lengths.map((length) => pool.copy(randomBytes(length)));
  for (const copy of copies) pool.release(copy);
  const used = new Set(copies.map((copy) => copy.buffer));
  const again = lengths.map((length) => pool.copy(randomBytes(length)));
  expect(again.map((copy) => used.has(copy.buffer))).toEqual([true, true, false, true, false]);
});
