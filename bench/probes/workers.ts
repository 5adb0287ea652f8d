import { type Cell, type Pace, runInterleaved } from '../rounds.ts';
import { SCENARIOS, type Scenario } from '../scenarios.ts';
import { startLimit } from '../targets/peers.ts';
import { startService } from '../targets/service.ts';
import type { Target } from '../targets/target.ts';
import { warm } from '../warm.ts';
import type { World } from '../world.ts';

export const WORKERS = [1, 2, 4] as const;
/** Of the hotels, so that the local cache of each worker has them after the warm-up. */
const SHARE = 1 / 10;
const WARM_UP_SECONDS = 6;

/**
 * Services with one and more workers, which share all cores with the load generator, Redis and PostgreSQL, and the upper bound
 * with as many processes: what those cost it in addition is the machine's. Each process has as many connections as the only one:
 * with fewer it reads fewer requests per wake-up, and each costs more.
 */
export async function workers(world: World, pace: Pace): Promise<Cell[]> {
  const around = { ...world.targetOptions, pin: world.cores.all };
  const targets: { count: number; target: Target }[] = [];
  const add = (count: number, target: Target) => {
    world.shutdown.push(target.name, target.stop, 12_000);
    targets.push({ count, target });
  };
  for (const count of WORKERS) {
    const environment = { WORKERS: String(count) };
    const service = await startService(around, { name: `workers-${count}`, environment });
    add(count, service);
    await warm(service, world);
    add(count, await startLimit(around, count, `limit-${count}`));
  }
  const free = { ...world, cores: { ...world.cores, move: async () => {} } };
  const cells: Cell[] = [];
  for (const name of ['get', 'batch-1000']) {
    const found = SCENARIOS.find((scenario) => scenario.name === name)!;
    const calls: Scenario['calls'] = (known) => {
      const all = found.calls(known);
      return all.slice(0, Math.ceil(all.length * SHARE));
    };
    const pairs = targets.map(({ count, target }) => ({
      scenario: { ...found, name: `workers-${name}`, connections: count * found.connections, calls },
      target,
    }));
    cells.push(...(await runInterleaved(free, pairs, { ...pace, warmUpSeconds: WARM_UP_SECONDS })));
  }
  for (const { target } of targets) await target.stop();
  return cells;
}
