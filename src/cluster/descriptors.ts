import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { replicaUrlsOf } from '../config/connection-addresses.ts';

/** What a worker needs beside client connections and PostgreSQL: files, pipes, Redis, name resolution. */
const RESERVE = 96;
/** A worker that may accept fewer client connections than this deserves a warning. */
const FEW_CONNECTIONS = 1_000;

/** The descriptors of a process, and what of them a worker leaves to its clients. */
export interface Descriptors {
  /** Infinity where the system does not tell (it is not Linux) */
  limit: number;
  /** client connections that a worker accepts at once */
  connections: number;
  isLow: boolean;
}

/**
 * Divides the descriptors that a process may have open, by default those of this one. A pool of PostgreSQL that is
 * replaced has its connections twice for a while. At least a quarter is for clients, however low the limit is.
 */
export function divideDescriptors(config: Config, limit = descriptorLimit()): Descriptors {
  const pools = config.DATABASE_POOL_SIZE * (1 + replicaUrlsOf(config).length);
  const connections = Math.max(Math.floor(limit / 4), limit - RESERVE - 2 * pools);
  return { limit, connections, isLow: connections < FEW_CONNECTIONS };
}

/** The soft limit; Node has raised it to the hard one. */
function descriptorLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? Infinity : Number(soft);
  } catch {
    return Infinity;
  }
}
