import { afterEach, expect, it } from 'vitest';
import { Unavailable } from '../errors.ts';
import type { View } from '../hotels/entry.ts';
import { realClocks, showMonotonic } from '../lib/clock.fixture.ts';
import { EventLoop } from '../lib/event-loop.ts';
import type { ChangeLog } from './change-log.ts';
import { ChangesReader, type Page } from './changes-reader.ts';
import type { PositionWatch } from './position-watch.ts';
import type { Token } from './token.ts';

const WATCH = { behind: () => 0, isLast: () => false, isReleased: false } as unknown as PositionWatch;
const CLIENT = { over: false, whenMade: () => {}, waited: () => {} };

afterEach(realClocks);

it('a page that the share of one API key rejects is read again for those of others', async () => {
  const owners: string[] = [];
  const log = {
    hotelsAfter: async (_: string, __: number, owner: string) => {
      owners.push(owner);
      await Promise.resolve();
      if (owner === 'many') throw new Unavailable('full', { rejection: 'postgres_queue' });
      return { state: { history: 'a', position: 1, transaction: '1', isOrphaned: false }, hotels: [] };
    },
  } as unknown as ChangeLog;
  const reader = new ChangesReader(log, WATCH, new EventLoop());
  const page = (owner: string) =>
    reader.page(
      {
        ...{ token: undefined, limit: 100, waitMs: 0, view: 'full', collection: null, owner },
        rights: () => Promise.resolve(null),
      },
      CLIENT,
    );
  const [own, ...others] = ['many', 'few', 'other', 'few'].map(page);
  await expect(own).rejects.toThrow(Unavailable);
  expect(await Promise.all(others)).toMatchObject([{ hotels: 0 }, { hotels: 0 }, { hotels: 0 }]);
  // each reads once by its own share
  expect(owners).toEqual(['many', 'few', 'other']);
});

const MIB = 1024 * 1024;
const STATE = {
  ...{ history: 'a', position: 1, transaction: '1', oldest: 0, transactionOfToken: '1' },
  ...{ isOrphaned: false, isQueued: false, isBusy: false },
};

const hotelOf = (id: string, bytes: number) => ({
  id,
  hotel: {
    bytes: { length: bytes },
    bodyLength: () => 2,
    copyBody: (_: View, to: Buffer, at: number) => at + to.write('{}', at),
  },
});

it('a page ends before hotels of over 2 MiB, whatever its limit, and has one at least', async () => {
  const hotels = ['a', 'b', 'c', 'd'].map((id, i) => hotelOf(id, (i === 3 ? 3 : 0.75) * MIB));
  const hotelsAfter = async (id: string) => ({ state: STATE, hotels: hotels.filter((each) => each.id > id) });
  const reader = new ChangesReader({ hotelsAfter } as unknown as ChangeLog, WATCH, new EventLoop());
  const bodies: unknown[] = [];
  let token: Token | undefined;
  for (let isMore = true; isMore; ) {
    const request = { token, limit: 100, waitMs: 0, view: 'full', collection: null, owner: 'a' } as const;
    const page = await reader.page({ ...request, rights: () => Promise.resolve(null) }, CLIENT);
    const { body, next } = page as Exclude<typeof page, string>;
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
  const hotelsAfter = async (_: string, limit: number) => {
    asked.push(limit);
    if (limit * bytes > 32 * MIB) throw new Unavailable('late', { rejection: 'postgres_timeout' });
    return { state: STATE, hotels: Array.from({ length: limit }, (_, i) => hotelOf(String(i), bytes)) };
  };
  const reader = new ChangesReader({ hotelsAfter } as unknown as ChangeLog, WATCH, new EventLoop());
  const request = { token: undefined, limit: 1000, waitMs: 0, view: 'full', collection: null } as const;
  const read = () =>
    reader.page({ ...request, owner: 'a', rights: () => Promise.resolve(null) }, CLIENT) as Promise<Page>;
  await expect(read()).rejects.toThrow(Unavailable);
  expect((await read()).hotels).toBe(32);
  bytes = 1024;
  for (const hotels of [48, 48, 96]) {
    expect((await read()).hotels).toBe(hotels);
    if (asked.length === 4) nowMs += 20_000;
  }
  expect(asked).toEqual([1001, 251, 49, 49, 97]);
});
