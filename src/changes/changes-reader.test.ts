import { expect, it } from 'vitest';
import { Unavailable } from '../errors.ts';
import { EventLoop } from '../lib/event-loop.ts';
import type { ChangeLog } from './change-log.ts';
import { ChangesReader } from './changes-reader.ts';
import type { PositionWatch } from './position-watch.ts';

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
  const watch = { behind: () => 0, isLast: () => false, isReleased: false } as unknown as PositionWatch;
  const reader = new ChangesReader(log, watch, new EventLoop());
  const client = { over: false, whenMade: () => {}, waited: () => {} };
  const page = (owner: string) =>
    reader.page(
      {
        ...{ token: undefined, limit: 100, waitMs: 0, view: 'full', collection: null, owner },
        rights: () => Promise.resolve(null),
      },
      client,
    );
  const [own, ...others] = ['many', 'few', 'other'].map(page);
  await expect(own).rejects.toThrow(Unavailable);
  expect(await Promise.all(others)).toMatchObject([{ hotels: 0 }, { hotels: 0 }]);
  // they share the second read
  expect(owners).toEqual(['many', 'few']);
});
