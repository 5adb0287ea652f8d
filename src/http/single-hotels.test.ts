import { brotliDecompressSync } from 'node:zlib';
import { beforeEach, expect, it } from 'vitest';
import { hotel } from '../cache/arena/arena.fixture.ts';
import { localCacheIn } from '../cache/local-cache.fixture.ts';
import type { LocalCache } from '../cache/local-cache.ts';
import { showMonotonic } from '../lib/clock.fixture.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { Exchange } from './exchange.ts';
import type { HotelSources } from './misses.ts';
import { singleHotels } from './single-hotels.ts';

const description = 'sea view '.repeat(1_000);
const large = hotel({ id: 'large', description });
const uncached = hotel({ id: 'uncached', description });

let nowMs: number;
let local: LocalCache;
let members: Set<string>;
let turns: (() => unknown)[];
let sent: [body: Buffer, encoding: string | undefined][];
let failures: string[];
let exchange: Exchange;
let may: boolean | undefined;
let send: ReturnType<typeof singleHotels>;

beforeEach(() => {
  nowMs = 1;
  showMonotonic(() => nowMs);
  local = localCacheIn(8 * 1024 ** 2);
  local.store(large, 0);
  for (const id of ['small', 'other']) local.store(hotel({ id, description: 'sea view '.repeat(100) }), 0);
  members = new Set(['large', 'small', 'uncached']);
  [turns, sent, failures, may] = [[], [], [], true];
  exchange = {
    principal: { keyId: 'k', collection: null, view: 'full' },
    owner: 'k',
    encoding: 'br',
    startedAtMs: 1,
    get nowMs() {
      return monotonicMs();
    },
    isKnown: () => false,
    okEncoded: (body: Uint8Array, _tag: string, encoding: string) => sent.push([Buffer.from(body), encoding]),
    fail: ({ code }: { code: string }) => failures.push(code),
  } as unknown as Exchange;
  const run = (_owner: string, _size: number, work: () => unknown) =>
    new Promise((resolve, reject) => turns.push(() => (async () => work())().then(resolve, reject)));
  const sources = {
    local,
    eventLoop: { run, isUsedUp: (atMs: number) => atMs > 10 },
    collections: {
      members: () => ({ has: (_: string, id: string) => members.has(id), hasHash: () => true }),
    },
    misses: {
      load: async (_: Exchange, _of: string, [key]: string[]) => [key === 'uncached' ? uncached : null],
    },
    access: { mayAnswerNow: () => may, mayStillAnswer: async () => may ?? false },
  };
  send = singleHotels(sources as unknown as HotelSources);
});

async function requested(id: string): Promise<typeof sent> {
  void send(exchange, 'id', id);
  await new Promise(setImmediate);
  return sent.splice(0);
}

async function takeTurns(): Promise<typeof sent> {
  for (const take of turns.splice(0)) take();
  await new Promise(setImmediate);
  return sent.splice(0);
}

function expectForm([form]: typeof sent, of = large): void {
  expect(form![1]).toBe('br');
  expect(brotliDecompressSync(form![0])).toEqual(Buffer.from(of.body('full')));
}

it('compresses a large hotel when it is the turn of its key, and a small one at once if there is time', async () => {
  expect(await requested('small')).toHaveLength(1);
  // whenever the request came: its key may have been looked up for others too
  nowMs = 11;
  expect(await requested('other')).toEqual([]);
  expect(await takeTurns()).toHaveLength(1);
  expect(await requested('large')).toEqual([]);
  expectForm(await takeTurns());
  // the cache keeps the form
  expectForm(await requested('large'));
  expect(await requested('uncached')).toEqual([]);
  expectForm(await takeTurns(), uncached);
});

it.each(['large', 'uncached'])('sends %s as it is if its turn comes late', async (id) => {
  expect(await requested(id)).toEqual([]);
  nowMs += 501;
  expect((await takeTurns())[0]![1]).toBeUndefined();
});

it('sends what the key may see when its turn comes', async () => {
  await requested('large');
  const renamed = hotel({ id: 'large', description, name: 'Renamed' });
  local.store(renamed, 0);
  expectForm(await takeTurns(), renamed);
  local.store(large, 0);
  exchange.principal = { ...exchange.principal!, collection: 'some' };
  for (const id of ['large', 'uncached']) {
    await requested(id);
    may = undefined;
    expect(await takeTurns()).toEqual([]);
    may = false;
    await requested(id);
    expect(await takeTurns()).toEqual([]);
    may = true;
  }
  await requested('large');
  members.delete('large');
  expect(await takeTurns()).toEqual([]);
  await requested('uncached');
  nowMs += 200;
  members.delete('uncached');
  expect(await takeTurns()).toEqual([]);
  expect(failures).toEqual(['hotel_not_found', 'hotel_not_found']);
});
