import { autocannonLoop } from './load/autocannon.ts';
import { processorTimeMs } from './processor-time.ts';
import { alone, type Cell } from './rounds.ts';
import { SCENARIOS } from './scenarios.ts';
import type { Target, TargetName } from './targets/target.ts';
import type { World } from './world.ts';

const CHECKED: TargetName[] = ['service', 'fastify', 'nginx'];

/** Repeats the two main scenarios with autocannon. It is the bottleneck, so the servers sleep more and pay more for a request. */
export async function checkWithAutocannon(world: World, targets: Target[], seconds: number): Promise<Cell[]> {
  const { hotels, keys } = world;
  const cells: Cell[] = [];
  for (const name of ['get', 'batch-1000']) {
    const scenario = SCENARIOS.find((each) => each.name === name)!;
    const calls = scenario.calls({ hotels, keys });
    for (const target of targets.filter((each) => CHECKED.includes(each.name))) {
      const beforeMs = await processorTimeMs(target.pid);
      // of several responses of 1 MB at once, it spends its time on its own memory
      const connections = name === 'get' ? scenario.connections : 1;
      const result = await alone(world, target, () =>
        autocannonLoop(target.port, calls, { connections, seconds }),
      );
      const spentMs = (await processorTimeMs(target.pid)) - beforeMs;
      const processorUs = (spentMs * 1000) / result.requests;
      const rounds = [{ ...result, processorUs, busy: spentMs / 1000 / result.seconds }];
      cells.push({ scenario: name, target: target.name, rounds });
    }
  }
  return cells;
}
