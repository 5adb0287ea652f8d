import { describe, expect, it } from 'vitest';
import { Entry } from '../../hotels/entry.ts';
import { hotel, NOW_MS } from './arena.fixture.ts';
import { CacheArena, type Coding } from './arena.ts';

const MIB = 1024 ** 2;
const LATER_MS = NOW_MS + 60_000;
const CODINGS: Coding[] = ['zstd', 'br', 'gzip'];
const VIEWS = ['full', 'narrow'] as const;
const FORM = Buffer.from('a compressed form');

function put(arena: CacheArena, id: string, fields: Parameters<typeof hotel>[0] = { id }): number {
  arena.put(hotel({ ...fields, id }).bytes, NOW_MS, LATER_MS);
  return arena.find('id', id, NOW_MS);
}

/** Requests the form twice, so that it is stored. */
function store(
  arena: CacheArena,
  id: string,
  view: 'full' | 'narrow',
  coding: Coding,
  bytes: Uint8Array,
): void {
  for (let demand = 0; demand < 2; demand++)
    arena.offerForm(arena.find('id', id, NOW_MS), view, coding, bytes);
}

function read(arena: CacheArena, id: string, view: 'full' | 'narrow', coding: Coding): string | undefined {
  const form = arena.form(arena.find('id', id, NOW_MS), view, coding);
  return form && Buffer.from(form).toString();
}

describe('a compressed form', () => {
  it('is stored at the second request', () => {
    const arena = new CacheArena(MIB);
    put(arena, 'a');
    expect(read(arena, 'a', 'full', 'gzip')).toBeUndefined();
    arena.offerForm(arena.find('id', 'a', NOW_MS), 'full', 'gzip', FORM);
    expect(read(arena, 'a', 'full', 'gzip')).toBeUndefined();
    expect(arena.stats().forms).toBe(0);
    arena.offerForm(arena.find('id', 'a', NOW_MS), 'full', 'gzip', FORM);
    expect(read(arena, 'a', 'full', 'gzip')).toBe(FORM.toString());
    expect(arena.stats()).toMatchObject({ forms: 1, entries: 1 });
  });

  it('belongs to one view and one coding of one hotel', () => {
    const arena = new CacheArena(MIB);
    for (const id of ['a', 'b']) put(arena, id, { id, registry_id: '7', channel_id: id });
    for (const id of ['a', 'b'])
      for (const view of VIEWS)
        for (const coding of CODINGS) store(arena, id, view, coding, Buffer.from(`${id} ${view} ${coding}`));
    for (const id of ['a', 'b'])
      for (const view of VIEWS)
        for (const coding of CODINGS) expect(read(arena, id, view, coding)).toBe(`${id} ${view} ${coding}`);
    expect(arena.stats().forms).toBe(12);
  });

  it('is not found when its hotel has changed, and again when that is as before', () => {
    const arena = new CacheArena(MIB);
    put(arena, 'a', { id: 'a', label: 1, name: 'old' });
    for (const coding of CODINGS) store(arena, 'a', 'full', coding, FORM);
    put(arena, 'a', { id: 'a', label: 2, name: 'new' });
    for (const coding of CODINGS) expect(read(arena, 'a', 'full', coding)).toBeUndefined();
    put(arena, 'a', { id: 'a', label: 3, name: 'old' });
    for (const coding of CODINGS) expect(read(arena, 'a', 'full', coding)).toBe(FORM.toString());
  });

  it('is not found for the hotel as it reads on another day', () => {
    const arena = new CacheArena(MIB);
    const entry = hotel({ id: 'a', certified_from: '2026-01-01', certified_until: '2026-11-21' });
    arena.put(entry.bytes, NOW_MS, LATER_MS);
    store(arena, 'a', 'full', 'gzip', FORM);
    const tomorrow = new Entry(entry.bytes).at(NOW_MS + 2 * 86_400_000);
    arena.put(tomorrow.bytes, NOW_MS, LATER_MS);
    expect(arena.form(arena.find('id', 'a', NOW_MS), 'full', 'gzip')).toBeUndefined();
  });

  it('counts in the budget', () => {
    const arena = new CacheArena(2 * MIB);
    const bytes = (id: string, coding: Coding) => Buffer.from(`${id} ${coding} `.repeat(40));
    let random = 7;
    const next = (below: number) => {
      random = (random * 1_103_515_245 + 12_345) >>> 0;
      return Math.floor((random / 2 ** 32) * below);
    };
    let served = 0;
    for (let i = 0; i < 40_000; i++) {
      const id = `h${next(3_000)}`;
      if (arena.find('id', id, NOW_MS) <= 0) put(arena, id, { id, label: i, name: `v${i}` });
      const ref = arena.find('id', id, NOW_MS);
      const coding = CODINGS[next(3)]!;
      const form = arena.form(ref, 'full', coding);
      if (form) {
        served++;
        expect(Buffer.from(form).equals(bytes(id, coding))).toBe(true);
      } else arena.offerForm(ref, 'full', coding, bytes(id, coding));
      if (i % 10 === 0) arena.drop('id', `h${next(3_000)}`);
      if (i % 7 === 0) put(arena, id, { id, label: i + 1, name: `w${i}` });
    }
    expect(served).toBeGreaterThan(1_000);
    const { bytes: used, maxBytes, forms, evictions } = arena.stats();
    expect(used).toBeLessThanOrEqual(maxBytes);
    expect(Math.min(forms, evictions)).toBeGreaterThan(100);
    for (let i = 0; i < 3_000; i++) arena.drop('id', `h${i}`);
    expect(arena.stats().entries).toBe(0);
    expect(arena.stats().keys).toBe(arena.stats().forms);
  });
});
