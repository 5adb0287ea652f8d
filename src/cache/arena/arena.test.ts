import fc from 'fast-check';
import { expect, it } from 'vitest';
import { encodeHotel } from '../../hotels/encode.ts';
import { momentOf, row } from '../../hotels/entry.fixture.ts';
import { VIEWS } from '../../hotels/entry.ts';
import { BODY_LENGTH_AT } from '../../hotels/entry-layout.ts';
import { forAll } from '../../lib/for-all.fixture.ts';
import { ABSENT, MAX_ENTRY_BYTES, MISS } from '../../wasm/constants.ts';
import { CacheMemory } from '../memory.ts';
import { hotel, NOW_MS } from './arena.fixture.ts';
import { CacheArena } from './arena.ts';

const MIB = 1024 ** 2;
const LATER_MS = NOW_MS + 60_000;

it('a hotel is a miss once it has expired, and when it was stored too early', () => {
  const arena = new CacheArena(new CacheMemory(MIB));
  arena.put(hotel({ id: 'a' }).bytes, NOW_MS, LATER_MS);
  expect(arena.find('id', 'a', LATER_MS - 1)).toBeGreaterThan(0);
  expect(arena.find('id', 'a', LATER_MS)).toBe(MISS);
  expect(arena.find('id', 'a', NOW_MS, NOW_MS)).toBeGreaterThan(0);
  expect(arena.find('id', 'a', NOW_MS, NOW_MS + 1)).toBe(MISS);
});

it('an entry reads at any time as if it had been encoded then', () => {
  const arena = new CacheArena(new CacheMemory(16 * MIB));
  const rowAtTimes = row.chain((one) =>
    fc.tuple(fc.constant(one), fc.array(momentOf(one), { minLength: 2 })),
  );
  forAll(rowAtTimes, ([fields, times]) => {
    const one = { ...fields, id: 'a' };
    arena.clear();
    arena.put(encodeHotel(one, 1, times[0]!).bytes, NOW_MS, LATER_MS);
    for (const wallMs of times) {
      const expected = encodeHotel(one, 1, wallMs);
      const ref = arena.find('id', 'a', NOW_MS, 0, wallMs);
      expect(arena.read(ref).equals(expected.bytes)).toBe(true);
      for (const view of VIEWS) {
        expect(expected.body(view).equals(arena.body(ref, view))).toBe(true);
        expect([arena.bodyLength(ref, view), `${arena.tag(ref, view)}`]).toEqual([
          expected.bodyLength(view),
          expected.tag(view),
        ]);
      }
    }
  });
});

it('an entry is rejected when it is too large, empty, or has inconsistent lengths', () => {
  const arena = new CacheArena(new CacheMemory(MIB));
  const broken = Buffer.from(hotel({ id: 'a' }).bytes);
  broken.writeUInt32LE(0xffffffff, BODY_LENGTH_AT);
  const large = hotel({ id: 'a', description: 'x'.repeat(20_000) }).bytes;
  for (const bytes of [large, broken, new Uint8Array(0)])
    expect(arena.put(bytes, NOW_MS, LATER_MS)).toBe(false);
  expect(arena.stats()).toMatchObject({ entries: 0, puts: 0 });
  const larger = hotel({ id: 'a', description: 'x'.repeat(MAX_ENTRY_BYTES) });
  expect(new CacheArena(new CacheMemory(1024 * MIB)).put(larger.bytes, NOW_MS, LATER_MS)).toBe(false);
});

it('an absence is not stored for a key that no hotel can have', () => {
  const arena = new CacheArena(new CacheMemory(MIB));
  for (const key of ['', '\0', 'a\0', '\ud800', 'x'.repeat(1_021), 'é'.repeat(511)]) {
    arena.putAbsent('id', key, NOW_MS, LATER_MS);
    expect(arena.find('id', key, NOW_MS)).toBe(MISS);
  }
  expect(arena.stats().absences).toBe(0);
  const long = '🏨'.repeat(255);
  arena.putAbsent('id', long, NOW_MS, LATER_MS);
  expect(arena.find('id', long, NOW_MS)).toBe(ABSENT);
});
