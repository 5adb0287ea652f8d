import type { Network } from './network.ts';
import type { PgCluster } from './postgres.ts';
import type { RedisServers } from './redis.ts';
import type { World } from './world.ts';

/** The world that runs at present, for what the service opens by a function of a module. */
interface Present {
  world: World;
  network: Network;
  postgres: PgCluster;
  redis: RedisServers;
  /** called by the worker that opens its port */
  onServer: (server: unknown) => void;
}

let now: Present | undefined;

export function setPresent(world: Present | undefined): void {
  now = world;
}

export function present(): Present {
  if (!now) throw new Error('no simulation runs');
  return now;
}
