import { expect, it } from 'vitest';
import { Collections } from './collections.ts';
import type { CollectionRepository } from './repository.ts';

const COLLECTIONS = 500;
const MEMBERS = 10;

it('changes of hotels reach the collections that have them, of very many that are held', async () => {
  const ids = (collection: string) =>
    Array.from({ length: MEMBERS }, (_, i) => `h${+collection * MEMBERS + i}`);
  const moved: string[] = [];
  const repository = {
    count: async () => MEMBERS,
    membersAfter: async (collection: string) =>
      ids(collection).map((id) => ({ id, channel_id: null, registry_id: null, is_member: true })),
    listOf: () => ({}),
  } as unknown as CollectionRepository;
  const collections = new Collections({ repository, maxBytes: 1e9, freshness: { isSure: () => true } });
  const all = Array.from({ length: COLLECTIONS }, (_, i) => String(i));
  for (const each of all) collections.members(each);
  await expect.poll(() => all.every((each) => collections.members(each))).toBe(true);
  for (const each of all) collections.members(each)!.list!.moved = (id) => moved.push(`${each} ${id}`);
  const changed = ['h0', 'h7', 'none', 'h4999'];
  collections.hotelsChanged({
    ids: changed,
    channelIds: ['c0', null, 'c-none', 'c4999'],
    registryIds: [null, '7', null, null],
    moves: true,
  });
  expect(moved).toEqual(['0 h0', '0 h7', '499 h4999']);
  expect(collections.members('0')!.has('channel', 'c0')).toBe(true);
  expect(collections.members('0')!.has('registry', '7')).toBe(true);
  expect(collections.members('499')!.has('channel', 'c4999')).toBe(true);
  expect(all.some((each) => collections.members(each)!.has('channel', 'c-none'))).toBe(false);
});
