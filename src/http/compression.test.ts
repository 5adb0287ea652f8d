import { randomBytes } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { beforeEach, describe, expect, it } from 'vitest';
import { bytesOf } from '../hotels/json-array.fixture.ts';
import { showMonotonic } from '../lib/clock.fixture.ts';
import { EventLoop } from '../lib/event-loop.ts';
import { type Compressed, CompressedPages, compress, mayCompress } from './compression.ts';

describe('a body that is compressed later', () => {
  const MIB = 1024 * 1024;
  const eventLoop = new EventLoop();
  let nowMs: number;

  beforeEach(() => {
    nowMs = 0;
    showMonotonic(() => nowMs);
  });

  const gzip = (bytes: Uint8Array, recipient: { owner: string; over: boolean }) =>
    compress(bytes, 'gzip', recipient, eventLoop);

  it('may be overwritten meanwhile, and is of any size', async () => {
    for (const size of [1, 2 * MIB, 2 * MIB + 1]) {
      const [body, memory] = [randomBytes(size), Buffer.alloc(size)];
      memory.set(body);
      const compressed = gzip(memory, { owner: 'random', over: false });
      memory.fill(0);
      expect(gunzipSync(bytesOf((await compressed).bytes)).equals(body)).toBe(true);
    }
  });

  it('of one owner does not wait for all of another', async () => {
    const finished: string[] = [];
    const run = (owner: string) =>
      gzip(Buffer.alloc(MIB, 'hotel'), { owner, over: false }).then(() => finished.push(owner));
    // uses up the iteration
    eventLoop.append('many', 1, () => {});
    await Promise.all([...Array.from({ length: 8 }, () => run('many')), run('one')]);
    expect(finished.indexOf('one')).toBeLessThan(3);
  });

  it('of a client that disconnects is abandoned', async () => {
    const client = { owner: 'gone', over: false };
    eventLoop.append('many', 1, () => {});
    const abandoned = gzip(randomBytes(MIB), client);
    client.over = true;
    expect((await abandoned).bytes).toHaveLength(0);
  });

  it.each([1, 3])('of %i MiB whose turn comes after 500 ms stays as it is', async (size) => {
    const body = randomBytes(size * MIB);
    const encodings: unknown[] = [];
    for (const waitMs of [500, 501]) {
      // the event loop and both threads are taken
      eventLoop.append('many', 1, () => {});
      const before = [1, 2].map(() => gzip(Buffer.alloc(4 * MIB), { owner: 'many', over: false }));
      const memory = Buffer.from(body);
      const compressed = gzip(memory, { owner: 'one', over: false });
      memory.fill(0);
      nowMs += waitMs;
      const { bytes, encoding } = await compressed;
      encodings.push(encoding);
      expect((encoding ? gunzipSync(bytesOf(bytes)) : bytesOf(bytes)).equals(body)).toBe(true);
      await Promise.all(before);
    }
    expect(encodings).toEqual(['gzip', undefined]);
  });

  it('waits with a bounded number of bytes', async () => {
    const body = Buffer.alloc(2 * MIB, 'hotel');
    const underWay: Promise<Compressed>[] = [];
    while (mayCompress(body.length, 'a')) underWay.push(gzip(body, { owner: 'a', over: false }));
    expect(underWay).toHaveLength(32);
    await Promise.all(underWay);
    // one of any size may always be compressed
    expect(mayCompress(2 ** 30, 'a')).toBe(true);
  });

  it('waits for another thread with fewer bytes, and API keys take turns', async () => {
    const begun = new Set<{ owner: string }>();
    const br = (owner: string) => {
      const recipient = {
        owner,
        // read when the compression begins
        get over() {
          begun.add(recipient);
          return false;
        },
      };
      return compress(Buffer.alloc(4 * MIB, 'hotel'), 'br', recipient, eventLoop);
    };
    const underWay: Promise<Compressed>[] = [];
    while (mayCompress(4 * MIB, 'a')) underWay.push(br(underWay.length < 7 ? 'many' : 'one'));
    expect(underWay).toHaveLength(8);
    expect(mayCompress(2 * MIB, 'a')).toBe(true);
    await Promise.all(underWay);
    expect([...begun].findIndex(({ owner }) => owner === 'one')).toBeLessThan(5);
    expect(mayCompress(2 ** 30, 'a')).toBe(true);
  });
});

const page = (text: string) => Buffer.from(text);
const BODY = page('body');

it('compressed pages are kept by tag and coding, and used for the same body alone', () => {
  const pages = new CompressedPages(1_000);
  pages.put('a', 'gzip', BODY, page('gzip of a'));
  expect(pages.get('a', 'gzip', BODY)?.toString()).toBe('gzip of a');
  expect(pages.get('a', 'gzip', page('bodY'))).toBeUndefined();
  expect([pages.get('a', 'br', BODY), pages.get('b', 'gzip', BODY)]).toEqual([undefined, undefined]);
});

it('compressed pages are bounded in bytes: the least recently used are dropped', () => {
  // three pages of 700 bytes, with what an entry takes beside them
  const pages = new CompressedPages(3_012);
  const some = page('7'.repeat(700));
  const has = (tag: string) => pages.get(tag, 'gzip', BODY) !== undefined;
  for (const tag of ['a', 'b', 'c']) pages.put(tag, 'gzip', BODY, some);
  has('a');
  pages.put('d', 'gzip', BODY, some);
  expect(['a', 'b', 'c', 'd'].filter(has)).toEqual(['a', 'c', 'd']);
  pages.put('e', 'gzip', BODY, page('7'.repeat(2_713)));
  expect(has('e')).toBe(false);
});
