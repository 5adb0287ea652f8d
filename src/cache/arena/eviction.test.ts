import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import {
  BODY_LENGTH_AT,
  HEAD_LENGTH_AT,
  HEADER_BYTES,
  KEY_LENGTHS_AT,
  SHARED_LENGTH_AT,
} from '../../hotels/entry-layout.ts';
import { CacheMemory } from '../memory.ts';
import { hotel, NOW_MS } from './arena.fixture.ts';
import { CacheArena } from './arena.ts';

const MIB = 1024 ** 2;
const LATER_MS = NOW_MS + 60_000;

describe('eviction', () => {
  const id = (i: number) => `hotel-${i}`;
  /** Reads hotels through the arena, as requests of clients do; returns the number of hits. */
  const read = (
    arena: CacheArena,
    from: number,
    to: number,
    entryOf = (key: string) => hotel({ id: key }).bytes,
  ) => {
    let hits = 0;
    for (let i = from; i < to; i++) {
      if (arena.find('id', id(i), NOW_MS) > 0) hits++;
      else arena.put(entryOf(id(i)), NOW_MS, LATER_MS);
    }
    return hits;
  };

  /** Reads hotels that are not read again, as a crawler does. */
  const scan = (arena: CacheArena, count: number): void => {
    const bytes = Buffer.from(hotel({ id: 'scan-0000000' }).bytes);
    for (let i = 0; i < count; i++) {
      const digits = String(i).padStart(7, '0');
      arena.find('id', `scan-${digits}`, NOW_MS);
      bytes.write(digits, HEADER_BYTES + 'scan-'.length);
      arena.put(bytes, NOW_MS, LATER_MS);
    }
  };

  it('keeps a hot set through a scan of a million hotels', () => {
    const arena = new CacheArena(new CacheMemory(16 * MIB));
    for (let round = 0; round < 4; round++) read(arena, 0, 10_000);
    scan(arena, 1_000_000);
    expect(arena.stats().evictions).toBeGreaterThan(980_000);
    expect(read(arena, 0, 10_000)).toBeGreaterThan(9_900);
  });

  it('adapts to a new hot set', () => {
    const arena = new CacheArena(new CacheMemory(4 * MIB));
    for (let round = 0; round < 4; round++) read(arena, 0, 3000);
    for (let round = 0; round < 8; round++) read(arena, 5000, 6500);
    expect(read(arena, 5000, 6500)).toBeGreaterThan(1400);
  });

  it('fills the whole budget before it evicts, and never exceeds it', () => {
    const arena = new CacheArena(new CacheMemory(4 * MIB));
    let bytes = 0;
    for (let i = 0; arena.stats().evictions === 0; i++) {
      const entry = hotel({ id: id(i) });
      arena.put(entry.bytes, NOW_MS, LATER_MS);
      bytes += entry.bytes.length;
    }
    expect(bytes).toBeGreaterThan(0.75 * 4 * MIB);
    for (let i = 0; i < 10_000; i++) arena.putAbsent('id', `no-${i}`, NOW_MS, LATER_MS);
    expect(arena.stats().bytes).toBeLessThanOrEqual(4 * MIB);
  });

  it('bounds small hotels by the size of the index, and keeps the hot ones', () => {
    const arena = new CacheArena(new CacheMemory(MIB));
    const template = hotel({ id: 'small' }).bytes;
    const small = (key: string) => {
      // the shortest possible entry: a header, a key and a body of two bytes
      const bytes = Buffer.alloc(HEADER_BYTES + key.length + 2, '{}');
      template.copy(bytes, 0, 0, HEADER_BYTES);
      bytes.writeUInt32LE(2, BODY_LENGTH_AT);
      bytes.writeUInt32LE(1, SHARED_LENGTH_AT);
      bytes.writeUInt32LE(1, HEAD_LENGTH_AT);
      bytes.writeUInt16LE(key.length, KEY_LENGTHS_AT);
      bytes.write(key, HEADER_BYTES);
      return bytes;
    };
    for (let round = 0; round < 4; round++) read(arena, 0, 1000, small);
    read(arena, 1000, 50_000, small);
    expect(arena.stats().entries).toBeGreaterThan(3000);
    expect(arena.stats().entries).toBeLessThan(4096 * 0.875);
    expect(read(arena, 0, 1000, small)).toBeGreaterThan(900);
  });
});

describe('memory', () => {
  it('stays within 150 MiB of resident memory for a budget of 128 MiB and 400,000 hotels', () => {
    const script = `
      import { hotel, NOW_MS } from '${new URL('./arena.fixture.ts', import.meta.url).pathname}';
      import { CacheArena } from '${new URL('./arena.ts', import.meta.url).pathname}';
      import { CacheMemory } from '${new URL('../memory.ts', import.meta.url).pathname}';
      const template = hotel({ id: 'hotel-000000', description: 'x'.repeat(750) }).bytes;
      gc();
      const before = process.memoryUsage().rss;
      const arena = new CacheArena(new CacheMemory(128 * 1024 ** 2));
      for (let i = 0; i < 400000; i++) {
        template.latin1Write(String(i).padStart(6, '0'), ${HEADER_BYTES + 'hotel-'.length});
        arena.put(template, NOW_MS, NOW_MS);
      }
      const added = process.memoryUsage().rss - before;
      console.log(JSON.stringify({ added, length: template.length, ...arena.stats() }));`;
    const { stdout, stderr } = spawnSync(
      process.execPath,
      ['--expose-gc', '--no-warnings', '--input-type=module', '-e', script],
      { encoding: 'utf8' },
    );
    expect(stderr).toBe('');
    const { added, length, puts, entries, bytes } = JSON.parse(stdout);
    expect(length).toBeGreaterThan(1100);
    expect(puts).toBe(400_000);
    expect(entries).toBeGreaterThan(85_000);
    expect(bytes).toBeLessThanOrEqual(128 * MIB);
    expect(added).toBeLessThan(150 * MIB);
  });

  it('works at addresses beyond 2 GiB', () => {
    const arena = new CacheArena(new CacheMemory(3.5 * 1024 * MIB));
    const entry = hotel({ id: 'far' });
    arena.put(entry.bytes, NOW_MS, LATER_MS);
    const ref = arena.find('id', 'far', NOW_MS);
    expect(entry.body('narrow').equals(arena.body(ref, 'narrow'))).toBe(true);
    const { output } = arena.gatherKeys('id', ['far'], 'full', NOW_MS);
    expect(Buffer.from(output)).toEqual(Buffer.from(`[${entry.body('full')}]`));
  });
});
