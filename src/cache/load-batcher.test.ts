import { expect, it } from 'vitest';
import { type BatchRead, LoadBatcher } from './load-batcher.ts';

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

it('reads 4 MiB of hotels at once, owners in turn, and 1000 hotels when they are small', async () => {
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
  expect(reads).toEqual([64]);
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
  expect(reads).toEqual([64, 64, 1, 64]);
  expect(Math.max(...(await answerAll()))).toBe(64);
  await many;
  hotel.bytes = Buffer.alloc(1_024);
  for (let round = 0; round < 40; round++) {
    const small = Promise.all(load(1_500, 'many'));
    await iteration();
    await answerAll();
    await small;
  }
  const last = Promise.all(load(1_500, 'many'));
  await iteration();
  expect(reads).toEqual([1_000]);
  await answerAll();
  await last;
});
