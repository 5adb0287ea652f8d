import { brotliDecompressSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { hotel } from '../cache/arena/arena.fixture.ts';
import { localCacheIn } from '../cache/local-cache.fixture.ts';
import type { Exchange } from './exchange.ts';
import type { HotelSources } from './hotel-sources.ts';
import { singleHotels } from './single-hotels.ts';

it('compresses a large hotel when it is the turn of its key, once, and a small one at once', async () => {
  const local = localCacheIn(8 * 1024 ** 2);
  const large = hotel({ id: 'large', description: 'sea view '.repeat(1_000) });
  local.store(large, 0);
  local.store(hotel({ id: 'small', description: 'sea view '.repeat(100) }), 0);
  const turns: [owner: string, take: () => void][] = [];
  const eventLoop = {
    run: (owner: string, _size: number, work: () => Buffer) =>
      new Promise<Buffer>((resolve) => turns.push([owner, () => resolve(work())])),
  };
  const access = { mayAnswerNow: () => true };
  const sent: [body: Buffer, encoding: string | undefined][] = [];
  const exchange = {
    principal: { keyId: 'k', collection: null, view: 'full' },
    owner: 'k',
    encoding: 'br',
    nowMs: 1,
    isKnown: () => false,
    okEncoded: (body: Uint8Array, _tag: string, encoding: string) => sent.push([Buffer.from(body), encoding]),
    sendCompressed: (compressing: Promise<Buffer>, send: (compressed: Buffer) => void) =>
      compressing.then(send),
  } as unknown as Exchange;
  const send = singleHotels({ local, collections: undefined, eventLoop, access } as unknown as HotelSources);
  const requested = async (id: string) => {
    await send(exchange, 'id', id);
    return sent.splice(0);
  };
  expect(await requested('small')).toHaveLength(1);
  let form: (typeof sent)[number] | undefined;
  // the cache keeps the form of a hotel that is requested again
  for (let round = 0; round < 2; round++) {
    expect(await requested('large')).toHaveLength(0);
    const [[owner, take]] = turns.splice(0) as [[string, () => void]];
    expect(owner).toBe('k');
    take();
    await new Promise(setImmediate);
    form = sent.splice(0)[0]!;
    expect(form[1]).toBe('br');
    expect(brotliDecompressSync(form[0])).toEqual(Buffer.from(large.body('full')));
  }
  expect(await requested('large')).toEqual([form]);
  expect(turns).toHaveLength(0);
});
