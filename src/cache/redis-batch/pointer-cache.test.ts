import { expect, it } from 'vitest';
import { openRedisBatch } from './redis-batch.fixture.ts';

/** `POINTER_SETS` sets of four, see src/wasm/assembly/layout.ts */
const CAPACITY = 262_144;
/** random, and the same in each run */
const SEED = [0x9d3f71c25ab0e86dn, 0x4be10f96d327c85bn, 0xe27a883d160f94b1n, 0x35c6d90bf2e47a1fn] as const;

function open() {
  const { store, memory, window, local, reader } = openRedisBatch();
  memory.wasm.init(0, 0, ...SEED);
  window.lowerFloor(0);

  /** Reads a batch of which Redis has the pointers, and of entries what is in `entries`, or loses the reply. */
  async function point(keys: string[], idOf: (key: string) => string, entries?: Map<string, Buffer>) {
    store.stored.clear();
    for (const key of keys) store.stored.set(`p:c:${key}`, Buffer.from(`>${idOf(key)}`));
    for (const [id, entry] of entries ?? []) store.stored.set(`p:h:${id}`, entry);
    const asked = { 'p:c:': [] as string[], 'p:h:': [] as string[] };
    store.onRead = (names) => {
      const start = names[0]!.slice(0, 4) as keyof typeof asked;
      asked[start] = names.map((name) => name.slice(start.length));
      return start === 'p:c:' || entries !== undefined;
    };
    await reader.complete('channel', local.arena.gatherKeys('channel', keys, 'full', 0), 'full', () => {});
    return { requested: asked['p:c:'], ids: asked['p:h:'] };
  }
  return point;
}

const batch = (number: number) => Array.from({ length: 1_000 }, (_, i) => `CH${number * 1_000 + i}`);
const idOf = (key: string) => `htl_${key.slice(2)}`;

it.each([
  // few have a set with more than four; one batch in 64 requests all of its pointers
  [50, 48_800, 50_000],
  // beyond the capacity they are replaced
  [300, CAPACITY / 4, CAPACITY],
])('pointers of %i batches are not requested again (%i to %i), nor mixed up', async (count, least, most) => {
  const point = open();
  const batches = Array.from({ length: count }, (_, i) => batch(i));
  for (const keys of batches) expect((await point(keys, idOf)).requested).toEqual(keys);
  let known = 0;
  for (const keys of batches) {
    const { requested, ids } = await point(keys, idOf);
    known += keys.length - requested.length;
    expect(ids).toEqual(keys.map(idOf));
  }
  expect(known).toBeGreaterThan(least);
  expect(known).toBeLessThanOrEqual(most);
});

it('pointers to ids of more than 36 bytes are requested each time', async () => {
  const point = open();
  const longIdOf = (key: string) => key.padEnd(key === 'CH1' ? 36 : 37, 'x');
  await point(['CH1', 'CH2'], longIdOf);
  const { requested, ids } = await point(['CH1', 'CH2'], longIdOf);
  expect(requested).toEqual(['CH2']);
  expect(ids).toEqual(['CH1', 'CH2'].map(longIdOf));
});

it('known pointers are requested by one batch in 64, which keeps them in a full Redis', async () => {
  const point = open();
  const counts: number[] = [];
  for (let i = 0; i < 128; i++) counts.push((await point(['CH1'], idOf)).requested.length);
  expect([...counts.entries()].filter(([, count]) => count > 0).map(([i]) => i)).toEqual([0, 63, 127]);
});

it('known pointers are requested again after their entry was missing or invalid', async () => {
  const point = open();
  const keys = ['CH1', 'CH2', 'CH3'];
  await point(keys, idOf, new Map([['htl_2', Buffer.from('xyz')]]));
  expect((await point(keys, idOf)).requested).toEqual(keys);
  expect((await point(keys, idOf)).requested).toEqual([]);
});
