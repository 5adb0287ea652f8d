import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { IdSet } from '../../collections/id-set.ts';
import type { Entry, View } from '../../hotels/entry.ts';
import { OK, TOO_LARGE } from '../../wasm/constants.ts';
import { CacheMemory } from '../memory.ts';
import { hotel, NOW_MS } from './arena.fixture.ts';
import { CacheArena } from './arena.ts';
import type { BatchLookup } from './batch-lookup.ts';

const MIB = 1024 ** 2;
const LATER_MS = NOW_MS + 60_000;
const entries = Array.from({ length: 100 }, (_, i) =>
  hotel({ id: `h${i}`, channel_id: `ch-${i}`, registry_id: i % 2 === 0 ? String(i) : String(-i) }),
);
const arena = new CacheArena(new CacheMemory(MIB));
for (const entry of entries) arena.put(entry.bytes, NOW_MS, LATER_MS);

function arrayOf(...bodies: Entry[]): string {
  return `[${bodies.map((entry) => entry.body('full')).join()}]`;
}

// src/http/batch-body.test.ts compares any body with what JSON.parse makes of it
describe('the body of a batch request', () => {
  it('has 1 MiB at most; a longer one throws before it is written over what is behind its memory', () => {
    const gather = (length: number) =>
      arena.gather('channel', Buffer.from('{"channel_ids":["ch-3"]}'.padEnd(length)), 'full', NOW_MS);
    expect(Buffer.from(gather(MIB).output).toString()).toBe(arrayOf(entries[3]!));
    expect(() => gather(MIB + 1)).toThrow(RangeError);
  });

  it('never shifts keys, however long they are together', () => {
    for (const length of [1_000, 87_381, 87_382, 262_143, 262_144, 300_000]) {
      const keys = ['éc', 'h-1?'];
      let rest = length - keys.join('').length;
      for (; rest > 0; rest -= 400) keys.push('x'.repeat(Math.min(400, rest)));
      const { hits, misses } = arena.gatherKeys('channel', keys, 'full', NOW_MS);
      expect([length, hits, misses]).toEqual([length, 0, keys.length]);
    }
    expect(arena.gatherKeys('channel', ['é', 'ch-1', '\0', 'ch-2'], 'full', NOW_MS).hits).toBe(2);
    expect(() => arena.gatherKeys('id', Array(1001).fill('a'), 'full', NOW_MS)).toThrow(RangeError);
  });
});

it('a batch counts what has expired or was stored too early as missed', () => {
  const own = new CacheArena(new CacheMemory(MIB));
  own.put(entries[1]!.bytes, NOW_MS - 5, LATER_MS);
  own.put(entries[2]!.bytes, NOW_MS, NOW_MS + 1);
  own.putAbsent('id', 'none', NOW_MS, LATER_MS);
  const batch = own.gatherKeys('id', ['h1', 'h2', 'none', 'h3', 'h1'], 'full', NOW_MS);
  expect([batch.hits, batch.absences, batch.misses]).toEqual([2, 1, 1]);
  own.gatherKeys('id', ['h1', 'h2', 'none'], 'full', NOW_MS + 1);
  expect([batch.hits, batch.absences, batch.misses]).toEqual([1, 1, 1]);
  expect(batch.takePartial().keys).toEqual(['h2']);
  own.gatherKeys('id', ['h1', 'h2', 'none'], 'full', NOW_MS, NOW_MS);
  expect([batch.hits, batch.absences, batch.misses]).toEqual([1, 1, 1]);
  expect(batch.takePartial().keys).toEqual(['h1']);
});

it('a batch is too large if its hotels have no room in a response', () => {
  const own = new CacheArena(new CacheMemory(16 * MIB));
  const ids = Array.from({ length: 150 }, (_, i) => `h${i}`);
  for (const id of ids) own.put(hotel({ id, description: 'x'.repeat(60_000) }).bytes, NOW_MS, LATER_MS);
  const statusOf = (keys: string[]) => own.gatherKeys('id', keys, 'full', NOW_MS).status;
  expect([statusOf(ids.slice(0, 20)), statusOf(ids)]).toEqual([OK, TOO_LARGE]);
});

describe('a batch of which only some ids are visible', () => {
  const isVisible = (n: number) => n % 3 !== 1;
  const visible = new IdSet(200);
  for (let n = 0; n <= 130; n++) if (isVisible(n)) visible.add('channel', `ch-${n}`);
  const numbers = fc.array(fc.integer({ min: 0, max: 130 }), { maxLength: 150 });
  const own = new CacheArena(new CacheMemory(MIB));
  for (const entry of entries.slice(0, 100)) own.put(entry.bytes, NOW_MS, LATER_MS);
  for (let n = 100; n < 115; n++) own.putAbsent('channel', `ch-${n}`, NOW_MS, LATER_MS);
  const lookUp = (requested: number[], view: View, ids?: IdSet) =>
    own.gather(
      'channel',
      Buffer.from(JSON.stringify({ channel_ids: requested.map((n) => `ch-${n}`) })),
      view,
      NOW_MS,
      0,
      NOW_MS,
      ids,
    );

  it.each(['full', 'narrow'] as const)('is the batch without the others, in the %s view', (view) => {
    fc.assert(
      fc.property(numbers, (requested) => {
        const resultOf = (found: BatchLookup) => ({
          output: Buffer.from(found.output).toString(),
          counts: [found.hits, found.absences, found.misses],
          missed: found.takePartial().keys,
        });
        const expected = resultOf(lookUp(requested.filter(isVisible), view));
        expect(resultOf(lookUp(requested, view, visible))).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  it('shows whether each of its hotels has a visible id of its own', () => {
    expect(lookUp([2, 3, 3, 110, 120], 'full', visible).areAmong(visible)).toBe(false);
    const withIds = new IdSet(10);
    for (const n of [2, 3]) {
      withIds.add('channel', `ch-${n}`);
      withIds.add('id', `h${n}`);
    }
    expect(lookUp([2, 3, 3, 4, 110, 120], 'full', withIds).areAmong(withIds)).toBe(true);
    withIds.add('channel', 'ch-4');
    expect(lookUp([2, 3, 4], 'full', withIds).areAmong(withIds)).toBe(false);
  });
});
