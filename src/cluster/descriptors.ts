import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { addressesOf } from '../config/connection-addresses.ts';
import { MAX_MASTERS } from '../redis/cluster/slot-map.ts';

/**
 * Descriptors that a worker needs besides client connections and PostgreSQL: files, pipes, a Redis server, name resolution.
 */
const RESERVE = 96;
/** Two for each master of a Redis Cluster, and as many for those of the slot map before, whose connections end. */
const CLUSTER_RESERVE = 4 * MAX_MASTERS;
/** Number of client connections below which a warning is logged. */
const FEW_CONNECTIONS = 1_000;

/**
 * Divides the descriptors of a process, by default of this one. Returns the limit and the maximum number of client
 * connections of a worker. A pool of PostgreSQL that is being replaced has its connections twice for a while. At least
 * a quarter is for clients, however low the limit.
 */
export function divideDescriptors(config: Config, limit = descriptorLimit()) {
  const pools = config.DATABASE_POOL_SIZE * (1 + addressesOf(config.DATABASE_REPLICA_URLS).length);
  const redis = addressesOf(config.REDIS_URL).length > 1 ? CLUSTER_RESERVE : 0;
  const connections = Math.max(Math.floor(limit / 4), limit - RESERVE - redis - 2 * pools);
  return { limit, connections, isLow: connections < FEW_CONNECTIONS };
}

/** Returns the soft limit, which Node has raised to the hard one; Infinity if it is not reported (not Linux). */
function descriptorLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? Infinity : Number(soft);
  } catch {
    return Infinity;
  }
}
