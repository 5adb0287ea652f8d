import { closedLoop } from '../load/closed.ts';
import { alone } from '../rounds.ts';
import { SCENARIOS } from '../scenarios.ts';
import { readBuckets } from '../targets/service.ts';
import type { Target } from '../targets/target.ts';
import type { World } from '../world.ts';
import type { Probe } from './probe.ts';

const AT_ONCE = 50;
const METRIC = 'hotel_api_event_loop_delay_seconds';

/** Measures the event-loop delay of the service while fifty clients request batches of 1000 without a pause. */
export async function eventLoop(world: World, service: Target, rounds: number): Promise<Probe> {
  const { hotels, keys } = world;
  const calls = SCENARIOS.find(({ name }) => name === 'batch-1000')!.calls({ hotels, keys });
  const ours: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const before = await readBuckets(service, METRIC);
    const result = await alone(world, service, () =>
      closedLoop(service.port, calls, { connections: AT_ONCE, seconds: 2 }),
    );
    // what cannot be answered in time is rejected
    const fault = result.faults.find((each) => !each.startsWith('status 503'));
    if (fault) throw new Error(`fifty batches at once: ${fault}`);
    const after = await readBuckets(service, METRIC);
    ours.push(p99(after.map(([le, count], i) => [le, count - before[i]![1]])));
  }
  return {
    name: 'event-loop',
    what: 'event-loop delay p99 with 50 batches of 1000 at once, s: ours against one',
    ours,
    theirs: ours.map(() => 1),
  };
}

/** Returns the upper bound of the bucket with the 99th percentile; throws without samples. */
function p99(buckets: [le: number, count: number][]): number {
  const total = buckets.at(-1)?.[1] ?? 0;
  if (total === 0) throw new Error(`${METRIC} did not rise`);
  return buckets.find(([, count]) => count >= 0.99 * total)![0];
}
