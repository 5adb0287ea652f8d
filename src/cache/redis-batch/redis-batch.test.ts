import { expect, it } from 'vitest';
import { Window } from '../../log/window.ts';
import type { ReplyReader } from '../../redis/reply-parser.ts';
import { localCacheIn } from '../local-cache.fixture.ts';
import { CacheMemory } from '../memory.ts';
import { PartialResponse } from '../partial-response.ts';
import { absenceOf } from '../redis-hotel-cache.ts';
import { RedisBatchReader } from './redis-batch.ts';

const BODY = Buffer.from('{"channel_ids":["a","nobody","b","a"]}');
/** Pointers to a and b, and an absence in between. */
const POINTERS = '*3\r\n$3\r\n>h0\r\n$2\r\n-3\r\n$3\r\n>h1\r\n';
const NOBODYS = Buffer.concat([
  Buffer.from('*3\r\n'),
  ...['a', 'nobody', 'b'].flatMap((key) => {
    const value = absenceOf('channel', key, 1);
    return [Buffer.from(`$${value.length}\r\n`), value, Buffer.from('\r\n')];
  }),
]);

/** Lookup counts of the last batch. */
let counted: unknown[][] = [];

/** Returns the keys left to the reader when Redis sends these replies and then closes the connection. */
async function leftAfter(...replies: (string | Buffer)[]): Promise<readonly string[]> {
  counted = [];
  const sendMget = async (_command: Buffer, _keys: number, reader: ReplyReader) => {
    const reply = replies.shift();
    if (reply === undefined) return undefined;
    const bytes = typeof reply === 'string' ? Buffer.from(reply) : reply;
    expect(reader.take(bytes, 0)).toBe(bytes.length);
    reader.complete();
    return true;
  };
  const memory = new CacheMemory(0);
  new Window(memory.window).lowerFloor(0);
  const local = localCacheIn(memory);
  const redisBatch = new RedisBatchReader({
    redis: { sendMget } as never,
    cache: { prefixOf: () => '1:' } as never,
    local,
    memory,
    mayRead: () => true,
    count: (...answer) => answer[2] > 0 && counted.push(answer),
  });
  let left: readonly string[] | undefined;
  const lookup = local.gatherBody('channel', BODY, 'full', true)!;
  await redisBatch.complete('channel', lookup, 'full', (result) => {
    expect(result).toBeInstanceOf(PartialResponse);
    left = (result as PartialResponse).keys;
  });
  return left!;
}

it('a connection lost before the pointers arrive leaves all keys to the reader', async () => {
  expect(await leftAfter()).toEqual(['a', 'nobody', 'b']);
});

it('a connection lost before the entries arrive leaves all keys to the reader', async () => {
  expect(await leftAfter(POINTERS)).toEqual(['a', 'nobody', 'b']);
  // the reader counts them
  expect(counted).toEqual([]);
});

it('an absent key is counted once, and not requested again', async () => {
  expect(await leftAfter(NOBODYS)).toEqual([]);
  expect(counted).toEqual([['redis', 'absent', 3]]);
});
