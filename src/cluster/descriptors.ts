import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { replicaUrlsOf } from '../config/connection-addresses.ts';

/**
 * Descriptors that a worker needs besides client connections and PostgreSQL: files, pipes, Redis, name resolution.
 */
const RESERVE = 96;
/** Number of client connections below which a warning is logged. */
const FEW_CONNECTIONS = 1_000;

/**
 * Divides the descriptors of a process, by default of this one. Returns the limit and the maximum number of client
 * connections of a worker. A pool of PostgreSQL that is being replaced has its connections twice for a while. At least
 * a quarter is for clients, however low the limit.
 */
export function divideDescriptors(config: Config, limit = descriptorLimit()) {
  const pools = config.DATABASE_POOL_SIZE * (1 + replicaUrlsOf(config).length);
  const connections = Math.max(Math.floor(limit / 4), limit - RESERVE - 2 * pools);
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
