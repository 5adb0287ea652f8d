import { expect, it } from 'vitest';
import type { ReplyReader } from '../../redis/reply-parser.ts';
import { PartialResponse } from '../partial-response.ts';
import { RedisBatchReader } from './redis-batch.ts';

const BODY = Buffer.from('{"channel_ids":["a","nobody","b","a"]}');
/** The pointers to a and b, and that nobody carries the other. */
const POINTERS = '*3\r\n$3\r\n>h0\r\n$1\r\n-\r\n$3\r\n>h1\r\n';
const NOBODYS = `*3\r\n${'$1\r\n-\r\n'.repeat(3)}`;

/** What was counted of the last batch. */
let counted: unknown[][] = [];

/** The keys that are left to the reader when Redis answers with these replies, and then not any more. */
async function leftAfter(...replies: string[]): Promise<readonly string[]> {
  counted = [];
  const ask = async (_command: Buffer, _keys: number, reader: ReplyReader) => {
    const reply = replies.shift();
    if (reply === undefined) return undefined;
    expect(reader.take(Buffer.from(reply), 0)).toBe(reply.length);
    reader.complete();
    return true;
  };
  const redisBatch = new RedisBatchReader(
    { ask } as never,
    { prefixOf: () => '1:' } as never,
    () => true,
    (...answer) => counted.push(answer),
  );
  let left: readonly string[] | undefined;
  await redisBatch.answer('channel', BODY, 'full', (answer) => {
    expect(answer).toBeInstanceOf(PartialResponse);
    left = (answer as PartialResponse).keys;
  });
  redisBatch.close();
  return left!;
}

it('a connection that is lost before the pointers came leaves all to the reader', async () => {
  expect(await leftAfter()).toEqual(['a', 'nobody', 'b']);
});

it('one that is lost before the entries came does too: of what was pointed, nothing came', async () => {
  expect(await leftAfter(POINTERS)).toEqual(['a', 'nobody', 'b']);
  // the reader counts them all
  expect(counted).toEqual([]);
});

it('what nobody carries is counted once, and not asked for again', async () => {
  expect(await leftAfter(NOBODYS)).toEqual([]);
  expect(counted).toEqual([['redis', 'absent', 3]]);
});

it('pointers that have no room in the memory leave all to the reader', async () => {
  const huge = 'x'.repeat(600_000);
  expect(await leftAfter(`*3\r\n$3\r\n>h0\r\n$${huge.length}\r\n${huge}\r\n$3\r\n>h1\r\n`)).toEqual([
    'a',
    'nobody',
    'b',
  ]);
});
