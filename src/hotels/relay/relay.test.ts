import { expect, it } from 'vitest';
import { Values } from '../../stores/reply.ts';
import { GappedAnswer } from '../gapped-answer.ts';
import { Relay } from './relay.ts';

const BODY = Buffer.from('{"channel_ids":["a","nobody","b","a"]}');
/** The pointers to a and b, and that nobody carries the other. */
const pointers = new Values(Buffer.from('>h0->h1'), [0, 3, 3, 1, 4, 3]);

/** What was counted of the last batch. */
let counted: unknown[][] = [];

/** The keys that are left to the reader when Redis answers thus. */
async function leftWhen(redis: object): Promise<readonly string[]> {
  counted = [];
  const relay = new Relay(
    redis as never,
    { prefixOf: () => '1:' } as never,
    () => true,
    (...answer) => counted.push(answer),
  );
  let left: readonly string[] | undefined;
  await relay.answer('channel', BODY, 'full', (answer) => {
    expect(answer).toBeInstanceOf(GappedAnswer);
    left = (answer as GappedAnswer).keys;
  });
  relay.close();
  return left!;
}

it('a connection that is lost before the pointers came leaves all to the reader', async () => {
  expect(await leftWhen({ askMany: async () => undefined })).toEqual(['a', 'nobody', 'b']);
});

it('one that is lost before the entries came does too: of what was pointed, nothing came', async () => {
  const left = await leftWhen({ askMany: async () => pointers, ask: async () => undefined });
  expect(left).toEqual(['a', 'nobody', 'b']);
  // the reader counts them all
  expect(counted).toEqual([]);
});

it('what nobody carries is counted once, and not asked for again', async () => {
  const nobodys = new Values(Buffer.from('-'), [0, 1, 0, 1, 0, 1]);
  expect(await leftWhen({ askMany: async () => nobodys })).toEqual([]);
  expect(counted).toEqual([['redis', 'absent', 3]]);
});
