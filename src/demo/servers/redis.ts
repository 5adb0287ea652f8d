import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Guarded, type Order, startOnFreePort } from './guarded.ts';
import { findProgram } from './programs.ts';
import { unpackRedis } from './unpack-redis.ts';

/** Redis server on the loopback with temporary data. */
export type RedisServer = Guarded & { url: string; port: number };

/** Usable Redis; `server` only if this process started it. */
export interface FoundRedis {
  url: string;
  server?: RedisServer;
}

const PROGRAMS = ['redis-server', 'valkey-server'];

/**
 * Returns the Redis of `REDIS_URL` if that is set, else a started one, else undefined. `log` reports downloads and the
 * reason if none was found.
 */
export async function findRedis(
  log: (sentence: string) => void,
  signal?: AbortSignal,
): Promise<FoundRedis | undefined> {
  const url = process.env.REDIS_URL?.trim();
  if (url) return { url };
  const server = await startRedis(log, signal);
  return server && { url: server.url, server };
}

/** Line that Redis prints when it accepts connections. */
export const REDIS_READY = /ready to accept connections/i;

/**
 * Returns the Redis server program: from the PATH, or from the distribution's package, unpacked without installation.
 * Undefined if there is none. TEST_REDIS names the program for tests and excludes all others.
 */
export async function findRedisProgram(
  log: (sentence: string) => void,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const wanted = process.env.TEST_REDIS;
  if (wanted) {
    const program = await findProgram([wanted]);
    if (!program) log(`TEST_REDIS=${wanted}, but it is not on the PATH.`);
    return program;
  }
  return (await findProgram(PROGRAMS)) ?? unpackRedis(log, { signal });
}

/** Starts a Redis server; returns undefined if no program was found. */
export async function startRedis(
  log: (sentence: string) => void,
  signal?: AbortSignal,
): Promise<RedisServer | undefined> {
  const program = await findRedisProgram(log, signal);
  if (!program) return undefined;
  const server = await startOnFreePort((port) => orderRedis(program, port), REDIS_READY);
  return { ...server, url: `redis://127.0.0.1:${server.port}/0` };
}

/** Returns the order that runs such a server in a new folder. */
export async function orderRedis(program: string, port: number): Promise<Order & { folder: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'hotel-api-redis-'));
  return {
    command: [
      program,
      ...['--bind', '127.0.0.1', '--port', String(port), '--dir', folder, '--daemonize', 'no'],
      ...['--save', '', '--appendonly', 'no', '--databases', '128'],
    ],
    env: { PATH: process.env.PATH },
    ...{ cwd: folder, folder, stopSignal: 'SIGTERM', killAfterMs: 3_000 },
  };
}
