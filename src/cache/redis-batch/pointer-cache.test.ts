import { describe, expect, it } from 'vitest';
import { replyOf } from '../../redis/store.fixture.ts';
import { CacheMemory } from '../memory.ts';
import { follow, readEntries, requestMissed } from './missed.fixture.ts';
import { PendingKeys } from './pending-keys.ts';

/** `POINTER_SETS` sets of four, see src/wasm/assembly/layout.ts */
const CAPACITY = 262_144;
/** random, and the same in each run */
const SEED = [
  0x9d3f_71c2_5ab0_e86dn,
  0x4be1_0f96_d327_c85bn,
  0xe27a_883d_160f_94b1n,
  0x35c6_d90b_f2e4_7a1fn,
] as const;

function open() {
  const memory = new CacheMemory(0);
  memory.wasm.init(0, 0, ...SEED);
  const keysOf = (command: Buffer, prefix: string) =>
    command
      .toString()
      .split('\r\n')
      .filter((line) => line.startsWith(prefix))
      .map((line) => line.slice(prefix.length));

  /** Requests a batch; `idOf` is what Redis holds. Returns the requested pointers, and the table and requested ids. */
  function point(keys: string[], idOf: (key: string) => string) {
    const count = requestMissed(memory, 'channel', keys, '7:c:');
    const requested = keysOf(memory.takeCommand(), '7:c:');
    expect(requested).toHaveLength(memory.result(2));
    // until the pointers are there, the reader would have to load all of them
    expect(new PendingKeys('channel', count, memory.takePending()).partialResponse().keys).toEqual(keys);
    const values = requested.map((key) => Buffer.from(`>${idOf(key)}`));
    const pointed = follow(memory, 'channel', count, values);
    const ids = keysOf(memory.takeCommand(), '7:h:');
    expect(ids).toHaveLength(pointed.named);
    return { requested, ids, pointed };
  }
  return { memory, point };
}

const batch = (number: number) => Array.from({ length: 1_000 }, (_, i) => `CH${number * 1_000 + i}`);
const idOf = (key: string) => `htl_${key.slice(2)}`;

describe('pointers of earlier batches', () => {
  it('are hardly ever requested again', () => {
    const { point } = open();
    for (let i = 0; i < 50; i++) expect(point(batch(i), idOf).requested).toEqual(batch(i));
    let repeated = 0;
    for (let i = 0; i < 50; i++) {
      const { requested, ids } = point(batch(i), idOf);
      repeated += requested.length;
      expect(ids).toEqual(batch(i).map(idOf));
    }
    // of 50,000 keys, few have a set with more than four; one batch in 64 requests all of its pointers
    expect(repeated).toBeLessThan(1_200);
  });

  it('are replaced beyond the capacity, and never mixed up', () => {
    const { point } = open();
    const batches = Array.from({ length: 400 }, (_, i) => batch(i));
    for (const keys of batches) point(keys, idOf);
    let known = 0;
    for (const keys of batches) {
      const { requested, ids } = point(keys, idOf);
      known += keys.length - requested.length;
      expect(ids).toEqual(keys.map(idOf));
    }
    expect(known).toBeGreaterThan(CAPACITY / 4);
    expect(known).toBeLessThanOrEqual(CAPACITY);
  });

  it('of one batch may be known in part', () => {
    const { point } = open();
    point(['CH1', 'CH3'], idOf);
    const { requested, ids } = point(['CH4', 'CH3', 'CH2', 'CH1'], idOf);
    expect(requested).toEqual(['CH4', 'CH2']);
    expect(ids).toEqual(['htl_4', 'htl_3', 'htl_2', 'htl_1']);
  });

  it('are requested each time for ids of more than 36 bytes', () => {
    const { point } = open();
    const longIdOf = (key: string) => key.padEnd(key === 'CH1' ? 36 : 37, 'x');
    point(['CH1', 'CH2'], longIdOf);
    const { requested, ids } = point(['CH1', 'CH2'], longIdOf);
    expect(requested).toEqual(['CH2']);
    expect(ids).toEqual(['CH1', 'CH2'].map(longIdOf));
  });

  it('are requested by one batch in 64, which keeps them in a full Redis', () => {
    const { point } = open();
    const requested = Array.from({ length: 128 }, () => point(['CH1'], idOf).requested.length);
    expect([...requested.entries()].filter(([, count]) => count > 0).map(([i]) => i)).toEqual([0, 63, 127]);
  });

  it('are requested again after their entry was missing or invalid', () => {
    const { memory, point } = open();
    const keys = ['CH1', 'CH2', 'CH3'];
    const { pointed } = point(keys, idOf);
    readEntries(memory, pointed, replyOf([null, Buffer.from('xyz'), null]));
    expect(point(keys, idOf).requested).toEqual(keys);
    expect(point(keys, idOf).requested).toEqual([]);
  });
});
