import { afterEach, expect, it } from 'vitest';
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

it('reads 2 MiB of hotels at once, owners in turn', async () => {
  const hotel = { bytes: Buffer.alloc(64 * 1024) };
  const pending: (() => void)[] = [];
  const reads: number[] = [];
  const read = async (_: string, keys: string[]): Promise<BatchRead> => {
    reads.push(keys.length);
    await new Promise<void>((resolve) => pending.push(resolve));
    return { found: keys.map(() => hotel as never), loaded: Promise.resolve() };
  };
  const joined = new LoadBatcher(read, () => false);
  const iteration = () => new Promise((resolve) => setImmediate(resolve));
  const answerAll = async () => {
    for (let at = 0; at < pending.length; at++) {
      pending[at]!();
      await iteration();
    }
    return reads.splice(0);
  };
  const load = (count: number, owner: string) =>
    Array.from({ length: count }, (_, i) => joined.load('id', [`h${i}`], owner, null));
  const many = Promise.all(load(1_500, 'many'));
  await iteration();
  expect(reads).toEqual([32]);
  let isAnswered = false;
  const other = Promise.all(load(1, 'other')).then(() => {
    isAnswered = true;
  });
  await iteration();
  for (let at = 0; at < 2; at++) {
    pending[at]!();
    await iteration();
  }
  expect(isAnswered).toBe(false);
  pending[2]!();
  await other;
  expect(reads).toEqual([32, 32, 1, 32]);
  expect(Math.max(...(await answerAll()))).toBe(32);
  await many;
});

it('rejects what cannot be read in time', async () => {
  let nowMs = 0;
  showMonotonic(() => nowMs);
  let answer = () => {};
  const read = async (_: string, keys: string[]): Promise<BatchRead> => {
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    return { found: keys.map(() => null), loaded: Promise.resolve() };
  };
  const joined = new LoadBatcher(read, () => false);
  const load = (key: string) => joined.load('id', [key], 'k', null);
  const many: Promise<unknown>[] = [];
  for (const count of [33, 5_000]) {
    for (let i = 0; i < count; i++) many.push(load(`h${many.length}`));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await expect(load('more')).rejects.toThrow(/more large hotels wait/);
  nowMs = 501;
  answer();
  const results = await Promise.allSettled(many);
  expect(results.map(({ status }) => status)).toEqual(
    many.map((_, i) => (i < 32 ? 'fulfilled' : 'rejected')),
  );
});
