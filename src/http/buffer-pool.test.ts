import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { BufferPool } from './buffer-pool.ts';

describe('a pool of buffers', () => {
  it('copies, and gives nobody the buffer of another', () => {
    const pool = new BufferPool(1_000, 4);
    const bodies = Array.from({ length: 10 }, (_, i) => randomBytes(1_000 - i));
    const copies = bodies.map((body) => pool.copy(body));
    expect(copies).toEqual(bodies);
    expect(new Set(copies.map((copy) => copy.buffer)).size).toBe(10);
  });

  it('uses again what was given back, and no more than it may keep', () => {
    const pool = new BufferPool(1_000, 2);
    const bodies = Array.from({ length: 3 }, () => randomBytes(10));
    const copies = bodies.map((body) => pool.copy(body));
    for (const copy of copies) pool.giveBack(copy);
    const again = bodies.map((body) => pool.copy(body));
    expect(again).toEqual(bodies);
    const used = new Set(copies.map((copy) => copy.buffer));
    expect(again.map((copy) => used.has(copy.buffer))).toEqual([true, true, false]);
  });

  it('gives what is larger memory of its own, and does not keep that', () => {
    const pool = new BufferPool(1_000, 2);
    const large = randomBytes(1_001);
    const copy = pool.copy(large);
    expect(copy).toEqual(large);
    pool.giveBack(copy);
    expect(pool.copy(randomBytes(1_000)).buffer).not.toBe(copy.buffer);
    expect([pool.holds(1_000), pool.holds(1_001)]).toEqual([true, false]);
  });
});
