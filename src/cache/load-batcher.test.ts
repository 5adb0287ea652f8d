import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { realClocks, showMonotonic } from '../lib/clock.fixture.ts';
import { type BatchRead, LoadBatcher } from './load-batcher.ts';

afterEach(realClocks);

/** Notes the lookups; no hotel exists. */
function batcher(isContended = false): { batcher: LoadBatcher; reads: string[] } {
  const reads: string[] = [];
  const read = async (
    namespace: string,
    keys: string[],
    owner: string,
    collection: string | null,
  ): Promise<BatchRead> => {
    reads.push(`${namespace} ${keys} ${owner} ${collection}`);
    return { found: keys.map(() => null), loaded: Promise.resolve() };
  };
  return { batcher: new LoadBatcher(read, () => isContended), reads };
}

it('requests of one event-loop iteration join into one lookup for each namespace and collection', async () => {
  const { batcher: joined, reads } = batcher();
  const requests = Array.from({ length: 50 }, (_, i) => joined.load('id', [`h${i % 25}`], `k${i}`, null));
  requests.push(joined.load('channel', ['C'], 'k', null), joined.load('id', ['h1'], 'k', 'c'));
  expect(await Promise.all(requests)).toEqual(requests.map(() => [null]));
  expect(reads).toEqual([
    `id ${Array.from({ length: 25 }, (_, i) => `h${i}`)}  null`,
    'channel C  null',
    'id h1  c',
  ]);
  await joined.load('id', ['h1'], 'k', null);
  expect(reads).toHaveLength(4);
});

it('while loads are queued each owner has a lookup of its own', async () => {
  const { batcher: fair, reads } = batcher(true);
  await Promise.all(['one', 'other', 'one'].map((owner, i) => fair.load('id', [`h${i}`], owner, null)));
  expect(reads).toEqual(['id h0,h2 one null', 'id h1 other null']);
});

describe('hotels of 64 KiB', () => {
  let nowMs: number;
  let found: BatchRead['found'][number];
  let reads: { count: number; answer: () => void }[];
  let joined: LoadBatcher;

  const load = (count: number, owner: string) =>
    Array.from({ length: count }, (_, i) => joined.load('id', [`${owner}${i}`], owner, null));

  /** Lets the next iteration begin. Returns the sizes of the lookups that have begun in the last ones. */
  const iteration = async () => {
    await new Promise((resolve) => setImmediate(resolve));
    return reads.map(({ count }) => count);
  };

  const answerNext = async () => {
    reads.shift()!.answer();
    return iteration();
  };

  beforeEach(async () => {
    nowMs = 0;
    showMonotonic(() => nowMs);
    found = { bytes: Buffer.alloc(64 * 1024) } as never;
    reads = [];
    const read = async (_: string, keys: string[]): Promise<BatchRead> => {
      const { promise, resolve } = Promise.withResolvers<void>();
      reads.push({ count: keys.length, answer: resolve });
      await promise;
      return { found: keys.map(() => found), loaded: Promise.resolve() };
    };
    joined = new LoadBatcher(read, () => false);
    void load(32, 'first');
    expect(await iteration()).toEqual([32]);
    await answerNext();
  });

  it('are read 2 MiB at once, owners in turn', async () => {
    void load(300, 'many');
    expect(await iteration()).toEqual([32]);
    void load(1, 'other');
    expect(await iteration()).toEqual([32]);
    expect(await answerNext()).toEqual([32]);
    expect(await answerNext()).toEqual([1, 32]);
  });

  it('are rejected after 500 ms, or beyond 5,000', async () => {
    const all = load(33, 'many');
    await iteration();
    all.push(...load(5_000, 'many'));
    await iteration();
    await expect(load(1, 'many')[0]).rejects.toThrow(/more large hotels wait/);
    const settled = Promise.allSettled(all);
    nowMs = 501;
    await answerNext();
    const results = await settled;
    expect(results.map(({ status }) => status)).toEqual(
      all.map((_, i) => (i < 32 ? 'fulfilled' : 'rejected')),
    );
  });

  it('are forgotten with time, and small ones that a slow Redis delays are not rejected', async () => {
    nowMs = 60_000;
    found = null;
    const all = load(6_000, 'many');
    expect(await iteration()).toEqual([256]);
    void load(1, 'many');
    nowMs = 62_000;
    while (reads.length > 0) await answerNext();
    expect(await Promise.all(all)).toEqual(all.map(() => [null]));
  });
});
