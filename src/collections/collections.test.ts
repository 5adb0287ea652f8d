import { expect, it, vi } from 'vitest';
import { Unavailable } from '../errors.ts';
import type { IdList } from '../hotels/id-list.ts';
import { List } from '../hotels/page-index.fixture.ts';
import { showMonotonic } from '../lib/clock.fixture.ts';
import { Collections } from './collections.ts';
import type { CollectionRepository, Membership } from './repository.ts';

const member = (id: string, is_member = true): Membership => ({
  ...{ id, channel_id: null, registry_id: null, is_member },
});

const collectionsOf = (repository: Partial<CollectionRepository>, maxBytes = 1e6) =>
  new Collections({
    repository: {
      ...{ count: async () => 2, listOf: () => ({}), membersAfter: async () => [member('a'), member('b')] },
      ...repository,
    } as CollectionRepository,
    maxBytes,
    freshness: { mayServeMembers: () => true },
  });

it('tells what are members by those that it holds, and else by a query', async () => {
  const queries: unknown[] = [];
  const collections = collectionsOf({
    membershipOf: async (...of: unknown[]) => {
      queries.push(of);
      return [member('a'), member('x', false)];
    },
  });
  const among = () => collections.membersAmong('c', ['a', 'x'], 'k');
  expect(await among()).toEqual(new Set(['a']));
  expect(queries).toEqual([['c', ['a', 'x'], 'k']]);
  await expect.poll(() => collections.members('c')).toBeDefined();
  expect(await among()).toEqual(new Set(['a']));
  expect(queries).toHaveLength(1);
});

it('looks up what changes while a collection is loaded, and not what changes while it waits', async () => {
  const { promise: loaded, resolve } = Promise.withResolvers<Membership[]>();
  const membersAfter = vi.fn(() => loaded);
  const asked: unknown[] = [];
  const collections = collectionsOf({
    membersAfter,
    membershipOf: async (id, ids) => {
      asked.push([id, ids]);
      return [member('x', false)];
    },
  });
  for (const id of ['loaded', 'waiting']) collections.members(id);
  await expect.poll(() => membersAfter).toHaveBeenCalledOnce();
  collections.hotelsChanged({ ids: ['x'], channelIds: [], registryIds: [], moves: false });
  collections.changed('waiting', ['y']);
  resolve([]);
  await expect.poll(() => collections.members('waiting')).toBeDefined();
  expect(asked).toEqual([['loaded', ['x']]]);
});

it('queries a page only at a small offset while its members are not in memory', async () => {
  const ids = vi.fn(async () => ['a', 'b']);
  const collections = collectionsOf({ listOf: () => ({ ids }) as unknown as IdList }, 0);
  expect(await collections.listOf('c').page(5_000, 1, 'k')).toEqual({ ids: ['a'], more: true });
  expect(ids).toHaveBeenCalledExactlyOnceWith([null, null], 5_000, 2, 'k');
  await expect(async () => collections.listOf('c').page(5_001, 1, 'k')).rejects.toThrow(Unavailable);
  expect(ids).toHaveBeenCalledOnce();
});

it('evicts what was used least recently, as far as a collection needs room', async () => {
  const collections = collectionsOf({}, 8_000);
  for (const [nowMs, id] of ['a', 'b', 'a', 'c'].entries()) {
    collections.members(id, nowMs);
    await expect.poll(() => collections.members(id, nowMs)).toBeDefined();
  }
  expect(['a', 'c', 'b'].map((id) => collections.members(id, 4) !== undefined)).toEqual([true, true, false]);
});

it('begins a failed load again after a pause, also if others need room meanwhile', async () => {
  const counted: string[] = [];
  const count = async (id: string) => {
    counted.push(id);
    if (id === 'failing') throw new Unavailable('refused', 'postgres_unavailable');
    return 2;
  };
  let nowMs = 5_000;
  showMonotonic(() => nowMs);
  const collections = collectionsOf({ count }, 8_000);
  for (const id of ['failing', 'a', 'b', 'c']) {
    collections.members(id);
    if (id !== 'failing') await expect.poll(() => collections.members(id)).toBeDefined();
  }
  expect(collections.members('failing')).toBeUndefined();
  await new Promise(setImmediate);
  expect(counted).toEqual(['failing', 'a', 'b', 'c']);
  nowMs += 1_000;
  collections.members('failing');
  await expect.poll(() => counted).toHaveLength(5);
});

it('leaves no ids to a page that waits for a list which is dropped', async () => {
  const collections = collectionsOf({ listOf: () => new List(['a', 'b']) as unknown as IdList });
  collections.members('c');
  await expect.poll(() => collections.members('c')).toBeDefined();
  const list = collections.listOf('c');
  // counts and divides it, and then holds its ids
  for (let i = 0; i < 2; i++) await list.page(Number.MAX_SAFE_INTEGER, 1, 'k');
  await list.page(0, 1, 'k');
  expect(list.cachedPage(0, 1)).toMatchObject({ ids: ['a'] });
  collections.changed('c', null);
  expect(list.cachedPage(0, 1)).toBeUndefined();
});
