import { describe, expect, it } from 'vitest';
import { encodeAbsence } from '../../hotels/encode.ts';
import { Entry } from '../../hotels/entry.ts';
import { hotel, NOW_MS } from './arena.fixture.ts';
import { ABSENT, MISS, Slab } from './arena.ts';

const MIB = 1024 ** 2;
const LATER_MS = NOW_MS + 60_000;

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString();
}

function versionOf(slab: Slab, ref: number): number {
  return new Entry(slab.read(ref)).version;
}

describe('one hotel', () => {
  it('is found by each of its keys, with its bytes, times and tags', () => {
    const slab = new Slab(MIB);
    const entry = hotel({ id: 'é-1', channel_id: 'ch', registry_id: '-7', version: 3 });
    expect(slab.put(entry.bytes, NOW_MS, LATER_MS)).toBe(true);
    for (const [namespace, key] of [
      ['id', 'é-1'],
      ['channel', 'ch'],
      ['registry', '-7'],
    ] as const) {
      const ref = slab.find(namespace, key, NOW_MS);
      expect(ref).toBeGreaterThan(0);
      expect(slab.read(ref).equals(entry.bytes)).toBe(true);
      expect(text(slab.body(ref, 'full'))).toBe(text(entry.body('full')));
      expect(text(slab.body(ref, 'narrow'))).toBe(text(entry.body('narrow')));
      expect(slab.tag(ref, 'full')).toBe(entry.tag('full'));
      expect(slab.tag(ref, 'narrow')).toBe(entry.tag('narrow'));
      expect([slab.storedAt(ref), slab.softUntil(ref)]).toEqual([NOW_MS, LATER_MS]);
    }
    expect(slab.find('channel', 'é-1', NOW_MS)).toBe(MISS);
  });

  it('is never replaced by an older version', () => {
    const slab = new Slab(MIB);
    slab.put(hotel({ id: 'a', version: 2, name: 'new' }).bytes, NOW_MS, LATER_MS);
    expect(slab.put(hotel({ id: 'a', version: 1, name: 'old' }).bytes, NOW_MS, LATER_MS)).toBe(false);
    expect(text(slab.body(slab.find('id', 'a', NOW_MS), 'full'))).toContain('"new"');
    expect(slab.put(hotel({ id: 'a', version: 2, name: 'again' }).bytes, NOW_MS, LATER_MS)).toBe(true);
    expect(slab.stats()).toMatchObject({ entries: 1, puts: 2, refused: 1 });
  });

  it('loses the keys that its new version no longer has', () => {
    const slab = new Slab(MIB);
    slab.put(hotel({ id: 'a', version: 1, channel_id: 'x1', registry_id: '1' }).bytes, NOW_MS, LATER_MS);
    slab.put(hotel({ id: 'a', version: 2, channel_id: 'x2', registry_id: null }).bytes, NOW_MS, LATER_MS);
    expect(slab.find('channel', 'x1', NOW_MS)).toBe(MISS);
    expect(slab.find('registry', '1', NOW_MS)).toBe(MISS);
    expect(slab.find('channel', 'x2', NOW_MS)).toBeGreaterThan(0);
  });

  it('gives its channel id to the hotel with the larger version, whichever came first', () => {
    const [old, young] = [
      hotel({ id: 'a', version: 1, channel_id: 'x' }),
      hotel({ id: 'b', version: 2, channel_id: 'x' }),
    ];
    for (const order of [
      [old, young],
      [young, old],
    ]) {
      const slab = new Slab(MIB);
      for (const entry of order) slab.put(entry.bytes, NOW_MS, LATER_MS);
      expect(versionOf(slab, slab.find('channel', 'x', NOW_MS))).toBe(2);
      expect(slab.find('id', 'a', NOW_MS)).toBeGreaterThan(0);
      slab.drop('id', 'a');
      expect(versionOf(slab, slab.find('channel', 'x', NOW_MS))).toBe(2);
    }
  });

  it('is a miss from the moment its certification flips, and where it was stored too early', () => {
    const slab = new Slab(MIB);
    const entry = hotel({ id: 'a', certified_from: '2026-01-01', certified_until: '2026-12-31' });
    slab.put(entry.bytes, NOW_MS, LATER_MS);
    expect(slab.find('id', 'a', entry.turnsAtMs - 1)).toBeGreaterThan(0);
    expect(slab.find('id', 'a', entry.turnsAtMs)).toBe(MISS);
    expect(slab.find('id', 'a', NOW_MS, NOW_MS)).toBeGreaterThan(0);
    expect(slab.find('id', 'a', NOW_MS, NOW_MS + 1)).toBe(MISS);
  });

  it('is refused when it is too large, absent, or its header lies about its lengths', () => {
    const slab = new Slab(MIB);
    expect(slab.put(hotel({ id: 'a', description: 'x'.repeat(20_000) }).bytes, NOW_MS, LATER_MS)).toBe(false);
    const broken = Buffer.from(hotel({ id: 'a' }).bytes);
    broken.writeUInt32LE(0xffffffff, 56);
    expect(slab.put(broken, NOW_MS, LATER_MS)).toBe(false);
    expect(slab.put(new Uint8Array(0), NOW_MS, LATER_MS)).toBe(false);
    expect(slab.put(encodeAbsence('a', 1).bytes, NOW_MS, LATER_MS)).toBe(false);
    expect(slab.stats()).toMatchObject({ entries: 0, refused: 4 });
  });
});

describe('an absence', () => {
  it('is known until its time, and a put of the key ends it at once', () => {
    const slab = new Slab(MIB);
    slab.putAbsent('channel', 'x', NOW_MS, NOW_MS + 10);
    expect(slab.find('channel', 'x', NOW_MS + 9)).toBe(ABSENT);
    expect(slab.find('channel', 'x', NOW_MS + 10)).toBe(MISS);
    expect(slab.find('id', 'x', NOW_MS)).toBe(MISS);
    slab.put(hotel({ id: 'a', channel_id: 'x' }).bytes, NOW_MS, LATER_MS);
    expect(slab.find('channel', 'x', NOW_MS)).toBeGreaterThan(0);
    expect(slab.stats()).toMatchObject({ entries: 1, absences: 0 });
  });

  it('takes the place of the hotel that its key led to', () => {
    const slab = new Slab(MIB);
    slab.put(hotel({ id: 'a', channel_id: 'x' }).bytes, NOW_MS, LATER_MS);
    slab.putAbsent('id', 'a', NOW_MS, LATER_MS);
    expect(slab.find('id', 'a', NOW_MS)).toBe(ABSENT);
    expect(slab.find('channel', 'x', NOW_MS)).toBe(MISS);
    slab.drop('id', 'a');
    expect(slab.find('id', 'a', NOW_MS)).toBe(MISS);
  });

  it('is never remembered for a key that no hotel can have', () => {
    const slab = new Slab(MIB);
    for (const key of ['', '\0', 'a\0', '\ud800', 'x'.repeat(256), 'é'.repeat(128)]) {
      slab.putAbsent('id', key, NOW_MS, LATER_MS);
      expect(slab.find('id', key, NOW_MS)).toBe(MISS);
    }
    expect(slab.stats().absences).toBe(0);
    const long = 'é'.repeat(127);
    slab.putAbsent('id', long, NOW_MS, LATER_MS);
    expect(slab.find('id', long, NOW_MS)).toBe(ABSENT);
  });
});
