import { expect, it } from 'vitest';
import type { Freshness } from '../log/freshness.ts';
import { Collections } from './collections.ts';
import type { CollectionRepository, Membership } from './repository.ts';

const member = (id: string, is_member = true): Membership => ({
  ...{ id, channel_id: null, registry_id: null, is_member },
});

it('tells what are members by those that it holds, and else by a query', async () => {
  const queries: unknown[] = [];
  const repository = {
    count: async () => 2,
    membersAfter: async () => [member('a'), member('b')],
    listOf: () => ({}),
    membershipOf: async (...of: unknown[]) => {
      queries.push(of);
      return [member('a'), member('x', false)];
    },
  } as unknown as CollectionRepository;
  const freshness: Pick<Freshness, 'mayServeMembers'> = { mayServeMembers: () => true };
  const collections = new Collections({ repository, maxBytes: 1e6, freshness });
  const among = () => collections.membersAmong('c', ['a', 'x'], 'k');
  expect(await among()).toEqual(new Set(['a']));
  expect(queries).toEqual([['c', ['a', 'x'], 'k']]);
  await expect.poll(() => collections.members('c')).toBeDefined();
  expect(await among()).toEqual(new Set(['a']));
  expect(queries).toHaveLength(1);
});
