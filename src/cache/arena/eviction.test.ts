import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { hotel, NOW_MS } from './arena.fixture.ts';
import { MISS, Slab } from './arena.ts';

const MIB = 1024 ** 2;
const LATER_MS = NOW_MS + 60_000;

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString();
}

describe('eviction', () => {
  const id = (i: number) => `hotel-${i}`;
  /** Reads through the slab, as a client's request does. */
  const read = (slab: Slab, key: string): boolean => {
    if (slab.find('id', key, NOW_MS) > 0) return true;
    slab.put(hotel({ id: key }).bytes, NOW_MS, LATER_MS);
    return false;
  };

  /** Asks for hotels that nobody asks for again, as a crawler does. */
  const scan = (slab: Slab, count: number): void => {
    const bytes = Buffer.from(hotel({ id: 'scan-0000000' }).bytes);
    for (let i = 0; i < count; i++) {
      const digits = String(i).padStart(7, '0');
      slab.find('id', `scan-${digits}`, NOW_MS);
      bytes.write(digits, 85);
      slab.put(bytes, NOW_MS, LATER_MS);
    }
  };
  const countHeld = (slab: Slab, from: number, to: number): number => {
    let held = 0;
    for (let i = from; i < to; i++) if (slab.find('id', id(i), NOW_MS) > 0) held++;
    return held;
  };

  it('keeps a hot set through a scan of a million hotels', () => {
    const slab = new Slab(16 * MIB);
    for (let round = 0; round < 4; round++) for (let i = 0; i < 10_000; i++) read(slab, id(i));
    scan(slab, 1_000_000);
    expect(slab.stats().evictions).toBeGreaterThan(980_000);
    expect(countHeld(slab, 0, 10_000)).toBeGreaterThan(9_900);
  }, 30_000);

  it('takes a hot hotel back as such after it was dropped', () => {
    const slab = new Slab(4 * MIB);
    for (let round = 0; round < 4; round++) for (let i = 0; i < 1000; i++) read(slab, id(i));
    scan(slab, 10_000);
    for (let i = 0; i < 1000; i++) slab.drop('id', id(i));
    for (let i = 0; i < 1000; i++) read(slab, id(i));
    scan(slab, 10_000);
    expect(countHeld(slab, 0, 1000)).toBeGreaterThan(950);
  });

  it('takes up a new hot set when the old one is no longer asked for', () => {
    const slab = new Slab(4 * MIB);
    for (let round = 0; round < 4; round++) for (let i = 0; i < 3000; i++) read(slab, id(i));
    for (let round = 0; round < 8; round++) for (let i = 5000; i < 6500; i++) read(slab, id(i));
    expect(countHeld(slab, 5000, 6500)).toBeGreaterThan(1400);
  });

  it('uses the whole budget before anything goes, and never more', () => {
    const slab = new Slab(4 * MIB);
    let bytes = 0;
    for (let i = 0; slab.stats().evictions === 0; i++) {
      const entry = hotel({ id: id(i) });
      slab.put(entry.bytes, NOW_MS, LATER_MS);
      bytes += entry.bytes.length;
    }
    expect(bytes).toBeGreaterThan(0.75 * 4 * MIB);
    for (let i = 0; i < 10_000; i++) slab.putAbsent('id', `no-${i}`, NOW_MS, LATER_MS);
    expect(slab.stats().bytes).toBeLessThanOrEqual(4 * MIB);
  });

  it('bounds small hotels by the room in the index, and still keeps the hot ones', () => {
    const slab = new Slab(MIB);
    const template = hotel({ id: 'small-00000' }).bytes;
    const small = (i: number) => {
      // The shortest entry there can be: a header, a key and a body of two bytes.
      const bytes = Buffer.alloc(80 + 11 + 2, '{}');
      template.copy(bytes, 0, 0, 80);
      bytes.writeUInt32LE(2, 56);
      bytes.writeUInt32LE(1, 60);
      bytes.fill(0, 72, 77);
      bytes.write(`small-${String(i).padStart(5, '0')}`, 80);
      return bytes;
    };
    const readSmall = (i: number) => {
      if (slab.find('id', `small-${String(i).padStart(5, '0')}`, NOW_MS) > 0) return 1;
      slab.put(small(i), NOW_MS, LATER_MS);
      return 0;
    };
    for (let round = 0; round < 4; round++) for (let i = 0; i < 1000; i++) readSmall(i);
    for (let i = 1000; i < 50_000; i++) readSmall(i);
    expect(slab.stats().entries).toBeGreaterThan(3000);
    expect(slab.stats().entries).toBeLessThan(4096 * 0.875);
    let hits = 0;
    for (let i = 0; i < 1000; i++) hits += readSmall(i);
    expect(hits).toBeGreaterThan(900);
  });

  it('leaves nothing behind after clear', () => {
    const slab = new Slab(MIB);
    for (let i = 0; i < 3000; i++) read(slab, id(i));
    slab.clear();
    expect(slab.stats()).toMatchObject({ entries: 0, absences: 0 });
    for (let i = 0; i < 3000; i++) expect(slab.find('id', id(i), NOW_MS)).toBe(MISS);
    read(slab, id(1));
    expect(slab.find('id', id(1), NOW_MS)).toBeGreaterThan(0);
  });
});

describe('memory', () => {
  it('stays within 150 MiB of resident memory for a budget of 128 MiB and 400,000 hotels', () => {
    const script = `
      import { hotel, NOW_MS } from '${new URL('./arena.fixture.ts', import.meta.url).pathname}';
      import { Slab } from '${new URL('./arena.ts', import.meta.url).pathname}';
      const template = hotel({ id: 'hotel-000000', description: 'x'.repeat(750) }).bytes;
      gc();
      const before = process.memoryUsage().rss;
      const slab = new Slab(128 * 1024 ** 2);
      for (let i = 0; i < 400000; i++) {
        template.latin1Write(String(i).padStart(6, '0'), 86);
        slab.put(template, NOW_MS, NOW_MS);
      }
      const added = process.memoryUsage().rss - before;
      console.log(JSON.stringify({ added, length: template.length, ...slab.stats() }));`;
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
    const slab = new Slab(3.5 * 1024 * MIB);
    const entry = hotel({ id: 'far' });
    slab.put(entry.bytes, NOW_MS, LATER_MS);
    const ref = slab.find('id', 'far', NOW_MS);
    expect(text(slab.body(ref, 'narrow'))).toBe(text(entry.body('narrow')));
    expect(text(slab.gatherKeys('id', ['far'], 'full', NOW_MS).output)).toBe(`[${text(entry.body('full'))}]`);
  });

  it('is refused outside 1 MiB to 3.5 GiB', () => {
    for (const bytes of [0, MIB - 1, 3.6 * 1024 * MIB, Number.NaN])
      expect(() => new Slab(bytes)).toThrow(RangeError);
  });
});
