import { expect, it } from 'vitest';
import { hotel } from '../cache/arena/arena.fixture.ts';
import { localCacheIn } from '../cache/local-cache.fixture.ts';
import { HotelSizes } from '../hotels/hotel-sizes.ts';
import type { Body } from '../hotels/json-array.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { Exchange } from './exchange.ts';
import { type AnswerPage, hotelPages } from './hotel-pages.ts';
import type { HotelSources } from './misses.ts';

const members: Record<string, string[]> = { first: ['a', 'b'], second: ['b', 'c'] };

it('sends the hotels of the collection that the key has when the turn of the page comes', async () => {
  const local = localCacheIn(1024 ** 2);
  for (const id of ['a', 'b', 'c']) local.store(hotel({ id }), monotonicMs());
  const pageOf = (collection: string) => ({ ids: members[collection]!, more: false });
  const collections = {
    listOf: (id: string) => ({ cachedPage: () => pageOf(id), page: async () => pageOf(id), moved: () => {} }),
  };
  const sent: string[] = [];
  const principal = { keyId: 'k', collection: 'first', view: 'full' };
  const exchange = {
    principal,
    owner: 'k',
    ok: (body: Body) => sent.push(String(body)),
  } as unknown as Exchange;
  let turn: Parameters<AnswerPage>[2];
  const answerPage: AnswerPage = (_, _hotels, respond) => {
    turn = respond;
  };
  const access = { authorize: () => true, mayStillAnswer: async () => true };
  const sources = { access, local, collections, sizes: new HotelSizes() } as unknown as HotelSources;
  const page = hotelPages(sources, '', undefined, answerPage);
  for (const collection of ['first', 'second']) {
    principal.collection = 'first';
    await page(exchange, '');
    principal.collection = collection;
    await turn!(true);
  }
  expect(sent.map((body) => JSON.parse(body).map(({ id }: { id: string }) => id))).toEqual([
    ['a', 'b'],
    ['b', 'c'],
  ]);
});
