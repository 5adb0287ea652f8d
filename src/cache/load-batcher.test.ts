import { beforeEach, describe, expect, it } from 'vitest';
import { HotelSizes } from '../hotels/hotel-sizes.ts';
import { VirtualClock } from '../lib/clock.fixture.ts';
import { LoadBatcher, type LookupResult } from './load-batcher.ts';

/** Notes the lookups; no hotel exists. */
function batcher(isContended = false) {
  const reads: string[] = [];
  const read = async (...[namespace, keys, owner, collection]: [string, string[], string, string | null]) => {
    reads.push(`${namespace} ${keys} ${owner} ${collection}`);
    return { found: new Map(keys.map((key) => [key, null])), loaded: Promise.resolve() };
  };
  return { batcher: new LoadBatcher(read, new HotelSizes(), () => isContended), reads };
}

it('requests of one event-loop iteration join into one lookup for each namespace and collection', async () => {
  const { batcher: joined, reads } = batcher();
  const requests = Array.from({ length: 50 }, (_, i) => joined.join('id', [`h${i % 25}`], `k${i}`, null));
  requests.push(joined.join('channel', ['C'], 'k', null), joined.join('id', ['h1'], 'k', 'c'));
  const found = (await Promise.all(requests)).map((result) => result.found.size);
  expect(found).toEqual([...Array(50).fill(25), 1, 1]);
  expect(reads).toEqual([
    `id ${Array.from({ length: 25 }, (_, i) => `h${i}`)}  null`,
    'channel C  null',
    'id h1  c',
  ]);
  await joined.join('id', ['h1'], 'k', null);
  expect(reads).toHaveLength(4);
});

it('while loads are queued each owner has a lookup of its own', async () => {
  const { batcher: fair, reads } = batcher(true);
  await Promise.all(['one', 'other', 'one'].map((owner, i) => fair.join('id', [`h${i}`], owner, null)));
  expect(reads).toEqual(['id h0,h2 one null', 'id h1 other null']);
});

describe('hotels of 64 KiB', () => {
  let clock: VirtualClock;
  let bytes: number;
  /** number of the first keys of a lookup that the caches do not find */
  let missing: number;
  /** settles when PostgreSQL answers */
  let loaded: Promise<void>;
  let reads: { owner: string; count: number; answer: () => void }[];
  let joined: LoadBatcher;

  const load = (count: number, owner: string) =>
    Array.from({ length: count }, (_, i) =>
      joined.join('id', [`${owner}${i}`], owner, null).then(({ loaded: until }) => until),
    );

  /** Lets the next iteration begin. Returns the lookups that have begun and are not answered, each by owner and size. */
  const iteration = async () => {
    await clock.pass(0);
    return reads.map(({ owner, count }) => `${owner} ${count}`);
  };

  const answerNext = async () => {
    reads.shift()!.answer();
    return iteration();
  };

  beforeEach(async () => {
    clock = new VirtualClock();
    bytes = 66_000;
    missing = 0;
    loaded = Promise.resolve();
    reads = [];
    const read = async (_: string, keys: string[], owner: string): Promise<LookupResult> => {
      const { promise, resolve } = Promise.withResolvers<void>();
      reads.push({ owner, count: keys.length, answer: resolve });
      await promise;
      loaded.catch(() => {});
      const hotel = { bytes: Buffer.alloc(bytes) } as never;
      return { found: new Map(keys.slice(missing).map((key) => [key, hotel])), loaded };
    };
    joined = new LoadBatcher(read, new HotelSizes(), () => false);
    for (const owner of ['many', 'few']) {
      void load(200, owner);
      await iteration();
      await answerNext();
    }
    expect(await iteration()).toEqual([]);
  });

  it('are read 512 KiB at once, in turns of their owners, and others need not wait', async () => {
    void load(300, 'many');
    void load(1, 'other');
    expect(await iteration()).toEqual(['many 8', ' 1']);
    expect(['many', 'few', 'other'].map((owner) => joined.mustWait(owner))).toEqual([true, true, false]);
    void load(1, 'few');
    expect(await iteration()).toEqual(['many 8', ' 1']);
    expect(await answerNext()).toEqual([' 1', 'few 1', 'many 8']);
  });

  it.each(['answered', 'failed'])('that no cache holds count until PostgreSQL has %s', async (how) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    loaded = promise;
    missing = 4;
    const all = Promise.allSettled(load(13, 'many'));
    expect(await iteration()).toEqual(['many 8']);
    // four are found, and four wait
    expect(await answerNext()).toEqual(['many 5']);
    void load(1, 'few');
    expect(await iteration()).toEqual(['many 5']);
    if (how === 'answered') resolve();
    else reject(new Error('no answer'));
    expect(await iteration()).toEqual(['many 5', 'few 1']);
    await answerNext();
    await all;
  });

  it('are known as such, although no lookup has more than one of them', async () => {
    for (let i = 0; i < 4; i++) {
      void load(1, 'slow');
      expect(await iteration()).toEqual([' 1']);
      await answerNext();
    }
    void load(1, 'slow');
    expect(await iteration()).toEqual(['slow 1']);
    await answerNext();
    // and are not any more when most of what it reads is small
    bytes = 1_000;
    void load(100, 'slow');
    await iteration();
    while (reads.length > 0) await answerNext();
    void load(1, 'slow');
    expect(await iteration()).toEqual([' 1']);
  });

  it('are rejected after 500 ms, and those of other owners are not', async () => {
    const all = load(1_009, 'many');
    await iteration();
    const others = load(1, 'other');
    await iteration();
    const results = Promise.allSettled(all.slice(8));
    await clock.pass(500);
    const tooLate = expect.objectContaining({ message: expect.stringMatching(/more large hotels wait/) });
    for (const result of await results) expect(result).toEqual({ status: 'rejected', reason: tooLate });
    // what is rejected is not read
    expect(await answerNext()).toEqual([' 1']);
    await answerNext();
    expect(await Promise.all([...all.slice(0, 8), ...others])).toHaveLength(9);
  });

  it('are forgotten with time, and small ones that a slow Redis delays are not rejected', async () => {
    await clock.pass(120_000);
    bytes = 1_000;
    const all = load(6_000, 'many');
    expect(await iteration()).toEqual([' 256']);
    await clock.pass(2_000);
    while (reads.length > 0) await answerNext();
    expect(await Promise.all(all)).toHaveLength(6_000);
  });
});
