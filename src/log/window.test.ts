import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hotel } from '../cache/arena/arena.fixture.ts';
import { openRedisBatch } from '../cache/redis-batch/redis-batch.fixture.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { HASH_SEED_HEX, HASH_SEED_VARIABLE } from '../wasm/load.ts';
import { Window, type WindowNamespace } from './window.ts';

const NAMESPACES: WindowNamespace[] = ['id', 'channel', 'registry', 'key'];

describe('a window', () => {
  const key = fc.tuple(
    fc.constantFrom(...NAMESPACES),
    fc.nat(300).map((n) => `key-${n}`),
  );
  const position = fc.integer({ min: 0, max: 1_000 });
  const step = fc.oneof(
    { weight: 200, arbitrary: fc.tuple(fc.constant('raise' as const), key, position) },
    { weight: 8, arbitrary: fc.tuple(fc.constant('raiseFloor' as const), key, position) },
    { weight: 8, arbitrary: fc.tuple(fc.constant('lowerFloor' as const), key, position) },
    fc.tuple(fc.constant('beginHistory' as const), key, position),
    fc.tuple(fc.constant('load' as const), key, position),
  );

  it('covers no label below a known change of its key or its floor, and few others are missed', () => {
    let [misses, asked] = [0, 0];
    const [window, primary] = [new Window(), new Window()];
    fc.assert(
      fc.property(fc.array(step, { minLength: 20, maxLength: 200 }), (steps) => {
        const newest = new Map<string, number>();
        let floor = 0;
        window.beginHistory(0);
        const raise = (of: string, at: number) => newest.set(of, Math.max(newest.get(of) ?? 0, at));
        for (const [does, of, at] of steps) {
          if (does === 'raise') {
            window.raise(...of, at);
            raise(`${of}`, at);
          } else if (does === 'raiseFloor') {
            window.raiseFloor(at);
            floor = Math.max(floor, at);
          } else if (does === 'lowerFloor') {
            window.lowerFloor(at);
            floor = Math.min(floor, at);
          } else if (does === 'beginHistory') {
            window.beginHistory(at);
            newest.clear();
            floor = at;
          } else {
            primary.beginHistory(at);
            primary.raise(...of, at + 5);
            primary.raiseFloor(at + 1);
            window.load(structuredClone(primary.copy()));
            newest.clear();
            raise(`${of}`, at + 5);
            floor = at + 1;
          }
          expect(window.floor).toBe(floor);
        }
        for (const [, of, at] of steps)
          for (const label of [at - 1, at, at + 5]) {
            const isCurrent = label >= Math.max(floor, newest.get(`${of}`) ?? 0);
            const isCovered = window.covers(...of, label);
            if (isCovered) expect(isCurrent).toBe(true);
            else if (isCurrent) misses++;
            asked++;
          }
      }),
      { numRuns: 60 },
    );
    // by collisions: 1204 keys of 2^20 buckets
    expect(misses / asked).toBeLessThan(0.05);
  });

  it('covers nothing before the first floor, nothing without a number, and nothing that is no key', () => {
    const window = new Window();
    expect(window.covers('id', 'a', Number.MAX_SAFE_INTEGER)).toBe(false);
    window.lowerFloor(5);
    expect([4, 5, Number.NaN].map((label) => window.covers('id', 'a', label))).toEqual([false, true, false]);
    for (const none of ['', 'x'.repeat(1_021)]) {
      window.raise('id', none, 5);
      expect(window.covers('id', none, 9)).toBe(false);
    }
    expect(window.covers('id', 'é'.repeat(255), 5)).toBe(true);
  });
});

it('a row of hotels raises the bucket of each key that it names', () => {
  const window = new Window();
  window.beginHistory(0);
  const keys = { ids: ['a', 'b'], channelIds: ['C', null], registryIds: [null, '7'] };
  window.apply({ kind: 'hotels', position: 5, moves: false, collection: null, ...keys });
  for (const [namespace, key] of [
    ['id', 'a'],
    ['id', 'b'],
    ['channel', 'C'],
    ['registry', '7'],
  ] as const)
    expect([4, 5].map((label) => [key, window.covers(namespace, key, label)])).toEqual([
      [key, false],
      [key, true],
    ]);
});

describe('WebAssembly', () => {
  const { memory, window, store, read } = openRedisBatch();

  /** Returns whether a hotel with this label in Redis is used. */
  async function isUsed(id: string, label: number): Promise<boolean> {
    store.stored.set(`p:h:${id}`, hotel({ id, label }).bytes);
    const [found] = await read('id', [id]);
    return found !== undefined;
  }

  it('uses the same buckets, for any key', async () => {
    const text = fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
      .filter((key) => key.isWellFormed() && Buffer.byteLength(key) <= 255);
    const key = fc.oneof(
      fc.tuple(fc.constantFrom<Namespace>('id', 'channel'), text),
      fc.tuple(fc.constant<Namespace>('registry'), fc.maxSafeInteger().map(String)),
    );
    const position = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER });
    await fc.assert(
      fc.asyncProperty(key, position, async ([namespace, of], position) => {
        window.beginHistory(0);
        window.raise(namespace, of, position);
        for (const label of [position - 1, position]) {
          expect(window.covers(namespace, of, label)).toBe(label === position);
          if (namespace === 'id') expect(await isUsed(of, label)).toBe(label === position);
        }
        expect(memory.window.filter((cell) => cell > 0)).toEqual(Float64Array.of(position));
      }),
      { numRuns: 150 },
    );
  });

  it('uses the same floor, and covers nothing before the window does', async () => {
    window.beginHistory(50);
    for (const label of [49, 50]) expect(await isUsed('7', label)).toBe(label === 50);
    new Window(memory.window);
    expect(await isUsed('7', Number.MAX_SAFE_INTEGER)).toBe(false);
  });
});

it('the seed of the hash is that of the primary process, or random', () => {
  const script = `
    import { Window } from '${new URL('./window.ts', import.meta.url).pathname}';
    const window = new Window();
    window.raise('id', 'a', 7);
    console.log(window.copy().indexOf(7));`;
  const bucketWith = (seed: string | undefined) =>
    Number(
      spawnSync(process.execPath, ['--no-warnings', '--input-type=module', '-e', script], {
        env: { ...process.env, [HASH_SEED_VARIABLE]: seed },
      }).stdout,
    );
  const here = new Window();
  here.raise('id', 'a', 7);
  const bucket = here.copy().indexOf(7);
  expect(bucketWith(HASH_SEED_HEX)).toBe(bucket);
  const others = [undefined, undefined, 'f'.repeat(64)].map(bucketWith);
  expect(new Set([bucket, ...others]).size).toBeGreaterThan(2);
});
