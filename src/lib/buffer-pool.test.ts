import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { BufferPool } from './buffer-pool.ts';

describe('a pool of buffers', () => {
  it('copies the bytes, and never hands out a buffer that is in use', () => {
    const pool = new BufferPool([1_000, 2_000], 8_000);
    const bodies = Array.from({ length: 10 }, (_, i) => randomBytes(200 * (i + 1)));
    const copies = bodies.map((body) => pool.copy(body));
    expect(copies).toEqual(bodies);
    const pooled = copies.filter((copy) => copy.length >= 250);
    expect(new Set(pooled.map((copy) => copy.buffer)).size).toBe(9);
    expect(copies.map((copy) => copy.buffer.byteLength).slice(1)).toEqual([
      ...new Array(4).fill(1_000),
      ...new Array(5).fill(2_000),
    ]);
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

  it.each([
    ['larger than a buffer', 2_001],
    ['much smaller than a buffer', 249],
  ])('allocates separate memory for bytes %s, and does not keep it', (_, length) => {
    const pool = new BufferPool([1_000, 2_000], 8_000);
    const bytes = randomBytes(length);
    const copy = pool.copy(bytes);
    expect(copy).toEqual(bytes);
    pool.release(copy);
    for (const size of [1_000, 2_000]) expect(pool.copy(randomBytes(size)).buffer).not.toBe(copy.buffer);
  });

  it('ignores a buffer that it did not allocate, even of a matching size', () => {
    const pool = new BufferPool([1_000], 8_000);
    const foreign = Buffer.allocUnsafeSlow(1_000);
    pool.release(foreign);
    expect(pool.copy(randomBytes(1_000)).buffer).not.toBe(foreign.buffer);
  });
});
