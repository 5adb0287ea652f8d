import { describe, expect, it } from 'vitest';
import { encodeAbsence } from '../../hotels/encode.ts';
import { MAX_ENTRY_BYTES } from '../../wasm/constants.ts';
import { hotel, NOW_MS } from './arena.fixture.ts';
import { ABSENT, CacheArena, MISS } from './arena.ts';

const MIB = 1024 ** 2;
const LATER_MS = NOW_MS + 60_000;

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString();
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
    const large = hotel({ id: 'a', description: 'x'.repeat(MAX_ENTRY_BYTES) });
    expect(new CacheArena(1024 * MIB).put(large.bytes, NOW_MS, LATER_MS)).toBe(false);
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
