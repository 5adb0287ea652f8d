import { join } from 'node:path';
import { addressesOf, checkOut } from '../compare.ts';
import { type Cell, type Pace, runScenario } from '../rounds.ts';
import { SCENARIOS } from '../scenarios.ts';
import { startService } from '../targets/service.ts';
import { bodyOf } from '../verify.ts';
import { warm } from '../warm.ts';
import type { World } from '../world.ts';

/** The last commit that compressed each response anew, in chunks of 16 KiB, and queried each page of the list. */
const BEFORE = 'd6d84e8^';
const REDIS_DATABASE = 10;
/** Both services have just started. */
const WARM_UP_SECONDS = 4;
const COMPARED = ['batch-1000-go', 'page-20-go'];

/** Requests compressed batches and pages from the service before those were made faster, and from the present one. */
export async function before(world: World, pace: Pace): Promise<Cell[]> {
  const { targetOptions, shutdown, hotels, keys } = world;
  const start = async (name: 'service' | 'before', root?: string) => {
    const own = root && (await addressesOf(root, world, REDIS_DATABASE));
    const target = await startService({ ...targetOptions, ...own }, { name, ...(root && { root }) });
    shutdown.push(`${name}, compared`, target.stop, 12_000);
    await warm(target, world);
    return target;
  };
  const pair = [
    await start('before', checkOut(BEFORE, join(world.folder, 'before'))),
    await start('service'),
  ] as const;
  const cells: Cell[] = [];
  for (const scenario of SCENARIOS.filter(({ name }) => COMPARED.includes(name))) {
    const [call] = scenario.calls({ hotels, keys });
    const [old, present] = await Promise.all(pair.map(({ port }) => bodyOf(port, call!)));
    world.log(`  ${scenario.name}: ${old!.length} bytes before, ${present!.length} now`);
    // the codes of a block's header are fixed since then, which costs some 30 bytes
    if (present!.length > 1.01 * old!.length) throw new Error(`${scenario.name} became larger`);
    for (const cell of await runScenario(world, scenario, [...pair], {
      ...pace,
      warmUpSeconds: WARM_UP_SECONDS,
    }))
      cells.push({ ...cell, scenario: `before-${cell.scenario}` });
  }
  for (const target of pair) await target.stop();
  return cells;
}
