import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hotel } from '../cache/arena/arena.fixture.ts';
import { CacheMemory } from '../cache/memory.ts';
import { EntryStream } from '../cache/redis-batch/entry-stream.ts';
import { requestAllMissed } from '../cache/redis-batch/missed.fixture.ts';
import { PendingKeys } from '../cache/redis-batch/pending-keys.ts';
import { absenceOf } from '../cache/redis-hotel-cache.ts';
import { type Namespace, numberOf } from '../hotels/namespace.ts';
import { HASH_SEED_HEX, HASH_SEED_VARIABLE } from '../wasm/load.ts';
import { Window, type WindowNamespace } from './window.ts';

const NAMESPACES: WindowNamespace[] = ['id', 'channel', 'registry', 'key'];

function open(floor = 0): Window {
  const window = new Window();
  window.lowerFloor(floor);
  return window;
}

/** Returns which of the labels the window covers for a key. */
function covered(window: Window, labels: number[], key = 'a', namespace: WindowNamespace = 'id'): number[] {
  return labels.filter((label) => window.covers(namespace, key, label));
}

/** Returns two keys that share a bucket. */
function collision(): [string, string] {
  const window = open();
  for (let i = 0; ; i++) {
    // the least label that is covered is one more than the number of the key in this bucket
    let label = 0;
    while (!window.covers('id', `h${i}`, label)) label++;
    if (label > 0) return [`h${label - 1}`, `h${i}`];
    window.raise('id', `h${i}`, i + 1);
  }
}

describe('a label', () => {
  it('is covered from the newest change of its key on, in whatever order the changes are applied', () => {
    const window = open();
    expect(covered(window, [0, 1])).toEqual([0, 1]);
    for (const position of [5, 7, 6]) window.raise('id', 'a', position);
    expect(covered(window, [5, 6, 7, 8])).toEqual([7, 8]);
  });

  it('is independent of changes in other namespaces', () => {
    for (const changed of NAMESPACES) {
      const window = open();
      window.raise(changed, 'a', 5);
      const expected = NAMESPACES.filter((namespace) => namespace !== changed);
      expect(NAMESPACES.filter((namespace) => window.covers(namespace, 'a', 4))).toEqual(expected);
    }
  });

  it('that is no number is never covered', () => {
    expect(covered(open(), [Number.NaN, -1])).toEqual([]);
  });

  it('of what is no key is never covered, and changes of it are ignored', () => {
    const window = open();
    for (const key of ['', 'x'.repeat(1_021)]) {
      window.raise('id', key, 5);
      expect(window.covers('id', key, 9)).toBe(false);
    }
    expect(window.covers('id', 'é'.repeat(255), 0)).toBe(true);
  });

  it('is never covered in error, and is missed in error by a collision alone', () => {
    const step = fc.tuple(fc.constantFrom(...NAMESPACES), fc.nat(300), fc.integer({ min: 1, max: 1e6 }));
    const newest = new Map<string, number>();
    const window = open();
    let misses = 0;
    let asked = 0;
    fc.assert(
      fc.property(fc.array(step, { minLength: 50, maxLength: 200 }), (steps) => {
        for (const [namespace, key, position] of steps) {
          window.raise(namespace, `key-${key}`, position);
          const name = `${namespace} ${key}`;
          newest.set(name, Math.max(newest.get(name) ?? 0, position));
        }
        for (const [namespace, key, label] of steps) {
          const isCurrent = label >= newest.get(`${namespace} ${key}`)!;
          const isCovered = window.covers(namespace, `key-${key}`, label);
          if (isCovered) expect(isCurrent).toBe(true);
          else if (isCurrent) misses++;
          asked++;
        }
      }),
    );
    // 1204 keys of 2^20 buckets
    expect(misses / asked).toBeLessThan(0.05);
  });
});

describe('a collision', () => {
  it('costs a miss of older labels, and nothing else', () => {
    const [one, other] = collision();
    const window = open();
    window.raise('id', one, 5);
    window.raise('id', other, 3);
    expect(covered(window, [2, 3, 4, 5], one)).toEqual([5]);
    expect(covered(window, [2, 3, 4, 5], other)).toEqual([5]);
  });
});

describe('the floor', () => {
  it('is above all labels until the window knows its changes', () => {
    const window = new Window();
    expect(covered(window, [0, 5, Number.MAX_SAFE_INTEGER])).toEqual([]);
    window.lowerFloor(5);
    expect(covered(window, [4, 5])).toEqual([5]);
  });

  it('falls when older changes are known, and never rises by that', () => {
    const window = open(100);
    window.lowerFloor(40);
    window.lowerFloor(60);
    expect([window.floor, ...covered(window, [39, 40])]).toEqual([40, 40]);
  });

  it('rises to a change of anything, and is never lowered below', () => {
    const window = open(100);
    window.raiseFloor(150);
    window.lowerFloor(40);
    expect(window.floor).toBe(150);
    window.raiseFloor(120);
    expect(window.floor).toBe(150);
    const late = new Window();
    late.raiseFloor(150);
    expect(covered(late, [149, 150])).toEqual([]);
    late.lowerFloor(40);
    expect(late.floor).toBe(150);
  });

  it('is where a history is followed from, until its earlier changes are known; those of another are forgotten', () => {
    const window = open();
    window.raise('id', 'a', 500);
    window.raiseFloor(400);
    window.beginHistory(90);
    expect(covered(window, [89, 90])).toEqual([90]);
    window.raise('id', 'a', 70);
    window.lowerFloor(60);
    expect(covered(window, [59, 69, 70])).toEqual([70]);
    expect(covered(window, [59, 60], 'b')).toEqual([60]);
    window.raiseFloor(65);
    window.lowerFloor(10);
    expect(window.floor).toBe(65);
  });
});

describe('the copy of a window', () => {
  it('gives a new one the same answers, together with the changes that it has applied already', () => {
    const primary = open(20);
    primary.raise('id', 'a', 50);
    primary.raise('key', 'b', 60);
    const worker = new Window();
    worker.raise('id', 'a', 70);
    worker.raise('id', 'c', 71);
    worker.load(structuredClone(primary.copy()));
    expect(covered(worker, [19, 20], 'd')).toEqual([20]);
    expect(covered(worker, [50, 69, 70], 'a')).toEqual([70]);
    expect(covered(worker, [59, 60], 'b', 'key')).toEqual([60]);
    expect(covered(worker, [70, 71], 'c')).toEqual([71]);
    primary.raise('id', 'd', 80);
    expect(covered(worker, [20], 'd')).toEqual([20]);
  });

  it('keeps the floor at changes of anything, of either', () => {
    for (const [before, since] of [
      [30, 0],
      [30, 70],
      [0, 70],
    ] as const) {
      const primary = open(20);
      if (before) primary.raiseFloor(before);
      const worker = new Window();
      if (since) worker.raiseFloor(since);
      worker.load(primary.copy());
      worker.lowerFloor(10);
      expect(worker.floor).toBe(Math.max(10, before, since));
    }
  });

  it('takes the floor of the other, even if its own was lower: changes between may be missing', () => {
    const worker = open(10);
    worker.load(open(20).copy());
    expect(worker.floor).toBe(20);
  });
});

describe('WebAssembly', () => {
  const memory = new CacheMemory(0);
  const window = new Window(memory.window);
  const { wasm, bytes, words } = memory;

  /** Writes a batch with one key, which has this value in Redis. */
  function point(namespace: 'channel' | 'registry', key: string, value: Buffer): PendingKeys {
    const number = numberOf(namespace);
    const count = requestAllMissed(memory, namespace, [key]);
    expect(count).toBe(1);
    const table = memory.takePending();
    bytes.set(value, wasm.POINTERS.value);
    words.set([0, value.length], wasm.PLACES.value / 4);
    bytes.set(table, wasm.SCRATCH.value);
    wasm.requestEntries(count, table.length, number, 0, 0, 0);
    return new PendingKeys(namespace, count, memory.takePending());
  }

  /** Returns whether the window covers the label in a reply of Redis. */
  function isUsed(namespace: Namespace, key: string, label: number): boolean {
    if (namespace !== 'id') {
      point(namespace, key, absenceOf(namespace, key, label));
      return memory.result(2) === 1;
    }
    const pending = point('channel', 'ch', Buffer.from(`>${key}`));
    const entry = hotel({ id: key, channel_id: 'ch', label }).bytes;
    let found = 0;
    const stream = new EntryStream(memory, pending, 'full', ({ hits }) => {
      found = hits;
    });
    const head = Buffer.from(`*1\r\n$${entry.length}\r\n`);
    stream.take(Buffer.concat([head, entry, Buffer.from('\r\n')]), 0);
    stream.complete();
    return found === 1;
  }

  it('uses the same buckets, for any key', () => {
    const text = fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
      .filter((key) => key.isWellFormed() && Buffer.byteLength(key) <= 255);
    const key = fc.oneof(
      fc.tuple(fc.constantFrom<Namespace>('id', 'channel'), text),
      fc.tuple(fc.constant<Namespace>('registry'), fc.maxSafeInteger().map(String)),
    );
    fc.assert(
      fc.property(key, fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), ([namespace, of], position) => {
        window.beginHistory(0);
        window.raise(namespace, of, position);
        for (const label of [position - 1, position]) {
          expect(window.covers(namespace, of, label)).toBe(label === position);
          expect(isUsed(namespace, of, label)).toBe(label === position);
        }
        expect(memory.window.filter((cell) => cell > 0)).toEqual(Float64Array.of(position));
      }),
      { numRuns: 150 },
    );
  });

  it('uses the same floor', () => {
    window.beginHistory(50);
    for (const namespace of ['id', 'channel', 'registry'] as const)
      expect([49, 50].map((label) => isUsed(namespace, '7', label))).toEqual([false, true]);
  });

  it('covers nothing before the window does', () => {
    new Window(memory.window);
    expect(isUsed('id', '7', Number.MAX_SAFE_INTEGER)).toBe(false);
  });

  it('has a window of the same length', () => {
    expect(() => new Window(memory.window.subarray(1))).toThrow(RangeError);
  });
});

describe('the seed of the hash', () => {
  const script = `
    import { Window } from '${new URL('./window.ts', import.meta.url).pathname}';
    const window = new Window();
    window.raise('id', 'a', 7);
    console.log(window.copy().buckets.indexOf(7));`;
  const run = (seed: string | undefined) =>
    spawnSync(process.execPath, ['--no-warnings', '--input-type=module', '-e', script], {
      encoding: 'utf8',
      env: { ...process.env, [HASH_SEED_VARIABLE]: seed },
    });

  it('is that of the primary process, or random', () => {
    const here = open();
    here.raise('id', 'a', 7);
    const bucket = here.copy().buckets.indexOf(7);
    expect(Number(run(HASH_SEED_HEX).stdout)).toBe(bucket);
    const others = [undefined, undefined, 'f'.repeat(64)].map((seed) => Number(run(seed).stdout));
    expect(new Set([bucket, ...others]).size).toBeGreaterThan(2);
  });

  it('is 64 hexadecimal digits', () => {
    for (const seed of ['', '7', 'f'.repeat(63), `${'f'.repeat(63)}x`, 'f'.repeat(66)])
      expect(run(seed).stderr).toContain('64 hexadecimal digits');
  });
});
