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
