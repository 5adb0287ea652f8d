import fc from 'fast-check';
import { expect, it } from 'vitest';
import { IdSet } from './id-set.ts';

/** What no id is: empty, or longer. */
const LONG = ['', 'x'.repeat(1021), `${'x'.repeat(1019)}é`];
const id = fc.oneof(
  fc.constantFrom('a', 'b', 'ab', 'é', '😀', 'x'.repeat(255), '😀'.repeat(255), ...LONG),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).filter((text) => text.isWellFormed()),
);

it('is exact after any order of additions and deletions', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.boolean(), id), { maxLength: 400 }), (steps) => {
      const set = new IdSet(8);
      const model = new Set<string>();
      for (const [isAdd, name] of steps) {
        if (isAdd) {
          set.add('channel', name);
          if (!LONG.includes(name)) model.add(name);
        } else {
          set.delete('channel', name);
          model.delete(name);
        }
      }
      for (const [, name] of steps) {
        expect(set.has('channel', name)).toBe(model.has(name));
      }
    }),
    { numRuns: 200 },
  );
});

it('holds a million ids in less than 12 MiB, and distinguishes them from others', () => {
  const count = 1_000_000;
  const set = new IdSet(count);
  for (let i = 0; i < count; i++) set.add('channel', `htl_${String(i).padStart(8, '0')}`);
  expect(IdSet.bytesFor(count)).toBe(set.bytes);
  expect(set.bytes).toBeLessThan(12 * 1024 ** 2);
  let inside = 0;
  let outside = 0;
  for (let i = 0; i < count; i += 7) {
    if (set.has('channel', `htl_${String(i).padStart(8, '0')}`)) inside++;
    if (set.has('channel', `hto_${String(i).padStart(8, '0')}`)) outside++;
  }
  expect([inside, outside]).toEqual([Math.ceil(count / 7), 0]);
});
