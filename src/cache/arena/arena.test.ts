import { describe, expect, it } from 'vitest';
import { encodeAbsence } from '../../hotels/encode.ts';
import { Entry } from '../../hotels/entry.ts';
import { hotel, NOW_MS } from './arena.fixture.ts';
import { ABSENT, CacheArena, MISS } from './arena.ts';

const MIB = 1024 ** 2;
const LATER_MS = NOW_MS + 60_000;

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString();
}

function labelOf(arena: CacheArena, ref: number): number {
  return new Entry(arena.read(ref)).label;
}

describe('one hotel', () => {
  it('is found by each key, with its bytes, times and tags', () => {
    const arena = new CacheArena(MIB);
    const entry = hotel({ id: 'é-1', channel_id: 'ch', registry_id: '-7', label: 3 });
    expect(arena.put(entry.bytes, NOW_MS, LATER_MS)).toBe(true);
    for (const [namespace, key] of [
      ['id', 'é-1'],
      ['channel', 'ch'],
      ['registry', '-7'],
    ] as const) {
      const ref = arena.find(namespace, key, NOW_MS);
      expect(ref).toBeGreaterThan(0);
      expect(arena.read(ref).equals(entry.bytes)).toBe(true);
      expect(text(arena.body(ref, 'full'))).toBe(text(entry.body('full')));
      expect(text(arena.body(ref, 'narrow'))).toBe(text(entry.body('narrow')));
      expect(String(arena.tag(ref, 'full'))).toBe(entry.tag('full'));
      expect(String(arena.tag(ref, 'narrow'))).toBe(entry.tag('narrow'));
      expect([arena.storedAt(ref), arena.refreshAtMs(ref)]).toEqual([NOW_MS, LATER_MS]);
    }
    expect(arena.find('channel', 'é-1', NOW_MS)).toBe(MISS);
  });

  it('keeps the later read when an earlier one is put', () => {
    const arena = new CacheArena(MIB);
    arena.put(hotel({ id: 'a', label: 2, name: 'new' }).bytes, NOW_MS, LATER_MS);
    expect(arena.put(hotel({ id: 'a', label: 1, name: 'old' }).bytes, NOW_MS, LATER_MS)).toBe(false);
    expect(text(arena.body(arena.find('id', 'a', NOW_MS), 'full'))).toContain('"new"');
    expect(arena.put(hotel({ id: 'a', label: 2, name: 'again' }).bytes, NOW_MS, LATER_MS)).toBe(true);
    expect(arena.stats()).toMatchObject({ entries: 1, puts: 2, rejected: 1 });
  });

  it('loses the keys that it no longer has', () => {
    const arena = new CacheArena(MIB);
    arena.put(hotel({ id: 'a', label: 1, channel_id: 'x1', registry_id: '1' }).bytes, NOW_MS, LATER_MS);
    arena.put(hotel({ id: 'a', label: 2, channel_id: 'x2', registry_id: null }).bytes, NOW_MS, LATER_MS);
    expect(arena.find('channel', 'x1', NOW_MS)).toBe(MISS);
    expect(arena.find('registry', '1', NOW_MS)).toBe(MISS);
    expect(arena.find('channel', 'x2', NOW_MS)).toBeGreaterThan(0);
  });

  it('loses its channel id to the hotel with the larger label, in either order', () => {
    const [old, young] = [
      hotel({ id: 'a', label: 1, channel_id: 'x' }),
      hotel({ id: 'b', label: 2, channel_id: 'x' }),
    ];
    for (const order of [
      [old, young],
      [young, old],
    ]) {
      const arena = new CacheArena(MIB);
      for (const entry of order) arena.put(entry.bytes, NOW_MS, LATER_MS);
      expect(labelOf(arena, arena.find('channel', 'x', NOW_MS))).toBe(2);
      expect(arena.find('id', 'a', NOW_MS)).toBeGreaterThan(0);
      arena.drop('id', 'a');
      expect(labelOf(arena, arena.find('channel', 'x', NOW_MS))).toBe(2);
    }
  });

  it('is a miss once its certification has flipped, and when it was stored too early', () => {
    const arena = new CacheArena(MIB);
    const entry = hotel({ id: 'a', certified_from: '2026-01-01', certified_until: '2026-12-31' });
    arena.put(entry.bytes, NOW_MS, LATER_MS);
    expect(arena.find('id', 'a', entry.validUntilMs - 1)).toBeGreaterThan(0);
    expect(arena.find('id', 'a', entry.validUntilMs)).toBe(MISS);
    expect(arena.find('id', 'a', NOW_MS, NOW_MS)).toBeGreaterThan(0);
    expect(arena.find('id', 'a', NOW_MS, NOW_MS + 1)).toBe(MISS);
  });

  it('is rejected when it is too large, absent, or has inconsistent lengths', () => {
    const arena = new CacheArena(MIB);
    expect(arena.put(hotel({ id: 'a', description: 'x'.repeat(20_000) }).bytes, NOW_MS, LATER_MS)).toBe(
      false,
    );
    const broken = Buffer.from(hotel({ id: 'a' }).bytes);
    broken.writeUInt32LE(0xffffffff, 56);
    expect(arena.put(broken, NOW_MS, LATER_MS)).toBe(false);
    expect(arena.put(new Uint8Array(0), NOW_MS, LATER_MS)).toBe(false);
    expect(arena.put(encodeAbsence('id', 'a', 1).bytes, NOW_MS, LATER_MS)).toBe(false);
    expect(arena.stats()).toMatchObject({ entries: 0, rejected: 4 });
  });
});

describe('an absence', () => {
  it('is known until it expires or a hotel with the key is put', () => {
    const arena = new CacheArena(MIB);
    arena.putAbsent('channel', 'x', NOW_MS, NOW_MS + 10);
    expect(arena.find('channel', 'x', NOW_MS + 9)).toBe(ABSENT);
    expect(arena.find('channel', 'x', NOW_MS + 10)).toBe(MISS);
    expect(arena.find('id', 'x', NOW_MS)).toBe(MISS);
    arena.put(hotel({ id: 'a', channel_id: 'x' }).bytes, NOW_MS, LATER_MS);
    expect(arena.find('channel', 'x', NOW_MS)).toBeGreaterThan(0);
    expect(arena.stats()).toMatchObject({ entries: 1, absences: 0 });
  });

  it('replaces the hotel of its key', () => {
    const arena = new CacheArena(MIB);
    arena.put(hotel({ id: 'a', channel_id: 'x' }).bytes, NOW_MS, LATER_MS);
    arena.putAbsent('id', 'a', NOW_MS, LATER_MS);
    expect(arena.find('id', 'a', NOW_MS)).toBe(ABSENT);
    expect(arena.find('channel', 'x', NOW_MS)).toBe(MISS);
    arena.drop('id', 'a');
    expect(arena.find('id', 'a', NOW_MS)).toBe(MISS);
  });

  it('is not stored for a key that no hotel can have', () => {
    const arena = new CacheArena(MIB);
    for (const key of ['', '\0', 'a\0', '\ud800', 'x'.repeat(1_021), 'é'.repeat(511)]) {
      arena.putAbsent('id', key, NOW_MS, LATER_MS);
      expect(arena.find('id', key, NOW_MS)).toBe(MISS);
    }
    expect(arena.stats().absences).toBe(0);
    const long = '🏨'.repeat(255);
    arena.putAbsent('id', long, NOW_MS, LATER_MS);
    expect(arena.find('id', long, NOW_MS)).toBe(ABSENT);
  });
});
