import { setTimeout as sleep } from 'node:timers/promises';
import { closedLoop } from './load/closed.ts';
import { batchOf, single, withChannel } from './scenarios.ts';
import type { Target } from './targets/target.ts';
import type { World } from './world.ts';

/** The service forgets the rate of cold batches after a second without any; until then it rejects at that rate. */
const FORGOTTEN_MS = 1_100;

/** Reads every hotel through a target, by channel id in batches and the rest by id. */
export async function warm(target: Target, { hotels, keys }: Pick<World, 'hotels' | 'keys'>): Promise<void> {
  const named = withChannel(hotels);
  // one read caches a hotel under all its keys in the service, but only under the requested key in nginx
  const byId = target.name === 'nginx' ? hotels : hotels.filter(({ channelId }) => channelId === null);
  const calls = byId.map((hotel) => single(hotel, 'id', keys.full, true));
  for (let from = 0; from < named.length; from += 500)
    calls.push(batchOf(named.slice(from, from + 500), keys.full, true));
  const sent = await closedLoop(target.port, calls, { connections: 4, seconds: 600, requests: calls.length });
  if (sent.faultCount > 0) throw new Error(`${target.name} does not warm up: ${sent.faults.join(', ')}`);
  await sleep(FORGOTTEN_MS);
}
