import { expect, it, vi } from 'vitest';
import { Unavailable } from '../errors.ts';
import { encodeHotel } from '../hotels/encode.ts';
import { HotelSizes } from '../hotels/hotel-sizes.ts';
import { EMPTY_ROW } from '../hotels/row.ts';
import { fakeTimers, showMonotonic } from '../lib/clock.fixture.ts';
import { EventLoop } from '../lib/event-loop.ts';
import type { Postgres } from '../postgres/client.ts';
import { ChangesReader } from './changes-reader.ts';
import { type ChangesPage, PageReader } from './page-reader.ts';
import { PositionWatch } from './position-watch.ts';
import type { Token } from './token.ts';

const MIB = 1024 * 1024;
let hasBeenCurrent = true;
const WATCH = new PositionWatch({ isCurrent: () => true, isCurrentFor: () => hasBeenCurrent });
const DAY = '2026-01-01';
const state = JSON.stringify({
  ...{ history: 'a', position: 1, transaction: '1', oldest: 0, transactionOfToken: '1', day: DAY },
  ...{ isOrphaned: false, isQueued: false, isListing: false, server: 'followed' },
});

type HotelsAfter = (id: string, limit: number, owner: string) => Promise<{ id: string }[]>;

/** Returns a function that reads a page, of a list from which this reads hotels. */
function readerOf(hotelsAfter: HotelsAfter) {
  const rows = async (...[text, parameters, owner, _, use]: Parameters<Postgres['rows']>) => {
    if (!text.includes('order by changed_id')) throw new Unavailable('late', 'postgres_timeout');
    const [, limit, id] = parameters as [null, number, string];
    const hotels = await hotelsAfter(id, limit, owner!);
    const found = hotels.map((row) => ({ ...row, changed_id: row.id, state }));
    await use!(found.length > 0 ? found : [{ state, changed_id: null, id: null }]);
  };
  const eventLoop = new EventLoop();
  const postgres = { rows } as unknown as Postgres;
  const pages = new PageReader(postgres, () => 'followed', WATCH, eventLoop, new HotelSizes());
  const reader = new ChangesReader(pages, WATCH, eventLoop);
  return (of: { token?: Token | undefined; owner?: string; waitMs?: number }) =>
    reader.page(
      {
        ...{ limit: 1000, waitMs: 0, view: 'full', collection: null, owner: 'a', token: undefined, ...of },
        rights: () => Promise.resolve({ view: 'full', collection: null }),
      },
      { over: false, whenMade: () => {}, waited: () => {} },
    ) as Promise<ChangesPage>;
}

/** Returns the row of a hotel that is encoded in so many bytes. */
function hotelOf(id: string, bytes: number) {
  const row = { ...EMPTY_ROW, id, name: '' };
  const others = encodeHotel(row, 1, Date.parse(DAY)).bytes.length;
  return { ...row, name: 'x'.repeat(bytes - others) };
}

it('a page that the share of one API key rejects is read again for those of others', async () => {
  const owners: string[] = [];
  const read = readerOf(async (_, __, owner) => {
    owners.push(owner);
    await Promise.resolve();
    if (owner === 'many') throw new Unavailable('full', 'postgres_queue');
    return [];
  });
  const [own, ...others] = ['many', 'few', 'other', 'few'].map((owner) => read({ owner }));
  await expect(own).rejects.toThrow(Unavailable);
  expect(await Promise.all(others)).toMatchObject([{ ids: [] }, { ids: [] }, { ids: [] }]);
  // each reads once by its own share
  expect(owners).toEqual(['many', 'few', 'other']);
});

it('a client that waits reads again while the queue is full, until its wait ends', async () => {
  fakeTimers();
  let fullFor = 3;
  const read = readerOf(async () => {
    if (fullFor-- > 0) throw new Unavailable('full', 'postgres_queue');
    return [hotelOf('a', 1_000)];
  });
  const page = read({ waitMs: 30_000 });
  await vi.advanceTimersByTimeAsync(30_001);
  expect(await page).toMatchObject({ ids: ['a'] });
  fullFor = Infinity;
  const rejected = expect(read({ waitMs: 30_000 })).rejects.toThrow('full');
  await Promise.all([rejected, vi.advanceTimersByTimeAsync(30_001)]);
});

it.each([
  [true, 'gets its empty page again'],
  [false, 'is rejected, because the page may be outdated'],
])(
  'a client that waited for a worker that has been current (%s) %s if the next read fails',
  async (isCurrent) => {
    fakeTimers();
    hasBeenCurrent = isCurrent;
    const page = readerOf(async () => [])({ waitMs: 1_000 });
    const expected = isCurrent
      ? expect(page).resolves.toMatchObject({ ids: [] })
      : expect(page).rejects.toThrow('late');
    await Promise.all([expected, vi.advanceTimersByTimeAsync(1_001)]);
  },
);

it('a page ends before hotels of over 2 MiB, whatever its limit, and has one at least', async () => {
  const hotels = ['a', 'b', 'c', 'd'].map((id, i) => hotelOf(id, (i === 3 ? 3 : 0.75) * MIB));
  const read = readerOf(async (id) => hotels.filter((each) => each.id > id));
  const bodies: unknown[] = [];
  let token: Token | undefined;
  for (let isMore = true; isMore; ) {
    const { body, next } = await read({ token });
    token = next;
    const { changes, more } = JSON.parse(body.toString());
    isMore = more;
    bodies.push(changes.map(({ id }: { id: string }) => id));
  }
  expect(bodies).toEqual([['a', 'b'], ['c'], ['d']]);
});

it('reads fewer hotels at a time while they are large, also after a query that was late', async () => {
  let nowMs = 0;
  showMonotonic(() => nowMs);
  const asked: number[] = [];
  let bytes = 64 * 1024;
  const read = readerOf(async (_, limit) => {
    asked.push(limit);
    if (limit * bytes > 32 * MIB) throw new Unavailable('late', 'postgres_timeout');
    return Array.from({ length: limit }, (_, i) => hotelOf(String(i), bytes));
  });
  await expect(read({})).rejects.toThrow(Unavailable);
  expect((await read({})).ids).toHaveLength(32);
  bytes = 1024;
  for (const hotels of [48, 48, 96]) {
    expect((await read({})).ids).toHaveLength(hotels);
    if (asked.length === 4) nowMs += 20_000;
  }
  expect(asked).toEqual([1001, 385, 49, 49, 97]);
});
