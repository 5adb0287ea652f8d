import { createKey } from '../../src/cli/keys.ts';
import { runInterleaved } from '../rounds.ts';
import { SCENARIOS, type Scenario } from '../scenarios.ts';
import type { Target } from '../targets/target.ts';
import type { World } from '../world.ts';
import type { Probe } from './probe.ts';

const SECONDS = 1;

/**
 * A key of a collection that holds all hotels of the run beside a key without a collection: CPU time a request in us. Both
 * get the same responses.
 */
export async function collection(world: World, target: Target, rounds: number): Promise<Probe[]> {
  const { sql, keys } = world;
  await sql`insert into collections (id, name) values ('bench', 'bench') on conflict do nothing`;
  await sql`insert into collection_hotels (collection_id, hotel_id) select 'bench', id from hotels on conflict do nothing`;
  await sql`analyze collection_hotels`;
  const { key } = await createKey(sql, {
    name: 'bench, of a collection',
    scopes: ['registry'],
    expiresAt: null,
    collection: 'bench',
  });
  const probes: Probe[] = [];
  for (const [scenario, name] of [
    ['get', 'collection-get'],
    ['batch-1000', 'collection-batch'],
    ['page-20', 'collection-list'],
  ] as const) {
    const found = SCENARIOS.find((each) => each.name === scenario)!;
    const within: Scenario = {
      ...found,
      name: `${found.name}-collection`,
      calls: (known) => found.calls({ ...known, keys: { ...keys, full: key } }),
    };
    const pairs = [found, within].map((each) => ({ scenario: each, target }));
    const [none, some] = await runInterleaved(world, pairs, { rounds, seconds: SECONDS });
    probes.push({
      name,
      what: `${found.title}, us: a key of a collection against one without`,
      ours: some!.rounds.map(({ processorUs }) => processorUs),
      theirs: none!.rounds.map(({ processorUs }) => processorUs),
    });
  }
  return probes;
}
