import { expect, it, vi } from 'vitest';
import { Unavailable } from '../errors.ts';
import type { View } from '../hotels/entry.ts';
import { HotelSizes } from '../hotels/hotel-sizes.ts';
import { fakeTimers, showMonotonic } from '../lib/clock.fixture.ts';
import { EventLoop } from '../lib/event-loop.ts';
import type { ChangeLog } from './change-log.ts';
import { ChangesReader } from './changes-reader.ts';
import type { ChangesPage } from './page-reader.ts';
import { PositionWatch } from './position-watch.ts';
import type { Token } from './token.ts';

const MIB = 1024 * 1024;
let hasBeenCurrent = true;
const WATCH = new PositionWatch({ isCurrent: () => true, isCurrentFor: () => hasBeenCurrent });
const STATE = {
  ...{ history: 'a', position: 1, transaction: '1', oldest: 0, transactionOfToken: '1' },
  ...{ isOrphaned: false, isQueued: false, isListing: false },
};

type HotelsAfter = (id: string, limit: number, owner: string) => Promise<unknown[]>;

/** Returns a function that reads a page, of a list from which this reads hotels. */
function readerOf(hotelsAfter: HotelsAfter) {
  const log = {
    hotelsAfter: async (...of: Parameters<HotelsAfter>) => ({
      state: STATE,
      hotels: await hotelsAfter(...of),
    }),
    changesAfter: () => Promise.reject(new Unavailable('late', 'postgres_timeout')),
  };
  const reader = new ChangesReader(log as unknown as ChangeLog, WATCH, new EventLoop(), new HotelSizes());
  return (of: { token?: Token | undefined; owner?: string; waitMs?: number }) =>
    reader.page(
      {
        ...{ limit: 1000, waitMs: 0, view: 'full', collection: null, owner: 'a', token: undefined, ...of },
        rights: () => Promise.resolve({ view: 'full', collection: null }),
      },
      { over: false, whenMade: () => {}, waited: () => {} },
    ) as Promise<ChangesPage>;
}

const hotelOf = (id: string, bytes: number) => ({
  id,
  hotel: {
    bytes: { length: bytes },
    bodyLength: () => 2,
    copyBody: (_: View, to: Buffer, at: number) => at + to.write('{}', at),
  },
});

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
