import type { LoadResult } from './load/call.ts';
import { openLoop } from './load/open.ts';
import { alone } from './rounds.ts';
import { SCENARIOS } from './scenarios.ts';
import type { Target, TargetName } from './targets/target.ts';
import type { World } from './world.ts';

/** Result of one rate of the open-loop sweep on one target. */
export interface SweepPoint extends LoadResult {
  scenario: string;
  target: string;
  perSecond: number;
}

/** Requests a second; the generator is limited to some 40,000 small ones. */
const RATES: Record<string, number[]> = {
  get: [5_000, 10_000, 30_000],
  'batch-1000': [25, 100, 400, 800, 1_600],
};
const SWEPT: TargetName[] = ['service', 'service-redis', 'nginx', 'fastify'];
/** A target with a 99th percentile above this is not measured at higher rates. */
const MAX_P99_US = 500_000;

/** Sends GETs and batches of 1000 at rising fixed rates, all targets at one rate before the next. */
export async function sweep(world: World, targets: Target[], seconds: number): Promise<SweepPoint[]> {
  const { hotels, keys } = world;
  const points: SweepPoint[] = [];
  for (const [name, rates] of Object.entries(RATES)) {
    const calls = SCENARIOS.find((scenario) => scenario.name === name)!.calls({ hotels, keys });
    const left = new Set(targets.filter((target) => SWEPT.includes(target.name)));
    for (const perSecond of rates) {
      for (const target of left) {
        const result = await alone(world, target, () => openLoop(target.port, calls, { perSecond, seconds }));
        points.push({ scenario: name, target: target.name, perSecond, ...result });
        if (result.p99Us > MAX_P99_US || result.faultCount > 0) left.delete(target);
      }
    }
  }
  return points;
}
