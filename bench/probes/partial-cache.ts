import { runScenario } from '../rounds.ts';
import { batch, SCENARIOS } from '../scenarios.ts';
import { startService } from '../targets/service.ts';
import { warm } from '../warm.ts';
import type { World } from '../world.ts';
import type { Probe } from './probe.ts';

const SECONDS = 1;
/** Batches took 1.4 ms in the first seconds, 1.0 ms after four and 0.8 ms after ten: V8 compiles, and the cache fills. */
const WARM_UP_SECONDS = 8;
/** Of a hotel in the local cache, beside its JSON: header, keys and index. */
const OVERHEAD_BYTES = 250;

/** A service whose local cache holds a third of the hotels beside one without a local cache: CPU time a request, us. */
export async function partialCache(world: World, rounds: number): Promise<Probe[]> {
  const { hotels } = world;
  const allBytes = hotels.reduce((sum, { fullBytes }) => sum + fullBytes + OVERHEAD_BYTES, 0);
  const start = async (name: 'service' | 'service-redis', maxBytes: number) => {
    const environment = { L1_MAX_BYTES: String(maxBytes) };
    const target = await startService(world.targetOptions, { name, environment });
    world.shutdown.push(`${name} of ${maxBytes} bytes`, target.stop, 12_000);
    await warm(target, world);
    return target;
  };
  const pair = [await start('service', Math.round(allBytes / 3)), await start('service-redis', 0)];
  const probes: Probe[] = [];
  const zipf = { ...batch(1000, 400, 8, true, true), name: 'batch-1000-zipf', title: 'batch of 1000, Zipf' };
  for (const [scenario, name] of [
    ['batch-1000', 'partial-cache-batch'],
    [zipf.name, 'partial-cache-zipf'],
    ['get', 'partial-cache-get'],
  ] as const) {
    const found = [...SCENARIOS, zipf].find((each) => each.name === scenario)!;
    const [third, none] = await runScenario(world, found, pair, {
      rounds,
      seconds: SECONDS,
      warmUpSeconds: WARM_UP_SECONDS,
    });
    probes.push({
      name,
      what: `${found.title}, us: no local cache against one for a third of the hotels`,
      ours: none!.rounds.map(({ processorUs }) => processorUs),
      theirs: third!.rounds.map(({ processorUs }) => processorUs),
    });
  }
  for (const target of pair) await target.stop();
  return probes;
}
