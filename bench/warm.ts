import { setTimeout as sleep } from 'node:timers/promises';
import { closedLoop } from './load/closed.ts';
import { batchOf, single, withChannel } from './scenarios.ts';
import type { Target } from './targets/target.ts';
import type { World } from './world.ts';

/** The service forgets the rate of cold batches after a second without any; until then it rejects at that rate. */
const FORGOTTEN_MS = 1_100;

/** Reads every hotel through a target, by channel id in batches and the rest by id; in nginx by both, with either key. */
export async function warm(target: Target, { hotels, keys }: Pick<World, 'hotels' | 'keys'>): Promise<void> {
  const named = withChannel(hotels);
  // one read of a hotel fills the service for all its ids and keys; nginx stores each response for its own id and key
  const isNginx = target.name === 'nginx';
  const byId = isNginx ? hotels : hotels.filter(({ channelId }) => channelId === null);
  const calls = (isNginx ? [true, false] : [true]).flatMap((scoped) => {
    const key = scoped ? keys.full : keys.narrow;
    const singles = byId.map((hotel) => single(hotel, 'id', key, scoped));
    for (let from = 0; from < named.length; from += 500)
      singles.push(batchOf(named.slice(from, from + 500), key, scoped));
    return singles;
  });
  const sent = await closedLoop(target.port, calls, { connections: 4, seconds: 600, requests: calls.length });
  if (sent.faultCount > 0) throw new Error(`${target.name} does not warm up: ${sent.faults.join(', ')}`);
  await sleep(FORGOTTEN_MS);
}
