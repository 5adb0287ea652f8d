import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Exit, Order } from './guarded.ts';
import { findProgram } from './programs.ts';
import { startOnFreePort } from './server.ts';
import { unpackRedis } from './unpack-redis.ts';

/** A real Redis server of our own on the loopback, with data nobody keeps. */
export interface RedisServer {
  url: string;
  port: number;
  pid: number;
  /** resolves when the server has ended, whoever ended it, and its folder is gone */
  exited: Promise<Exit>;
  stop(): Promise<Exit>;
}

/** A Redis; `server` only where we started it. */
export interface FoundRedis {
  url: string;
  server?: RedisServer;
}

const PROGRAMS = ['redis-server', 'valkey-server'];

/**
 * The Redis of `REDIS_URL` where that is set; else one of our own, as `findRedisProgram` finds it; else undefined.
 * `say` gets what is fetched, and why nothing was found.
 */
export async function findRedis(
  say: (sentence: string) => void,
  signal?: AbortSignal,
): Promise<FoundRedis | undefined> {
  const url = process.env.REDIS_URL?.trim();
  if (url) return { url };
  const server = await startRedis(say, signal);
  return server && { url: server.url, server };
}

/** What Redis prints when it may be asked. */
export const REDIS_READY = /ready to accept connections/i;

/**
 * The program of Redis: on the PATH, or of the distribution's package, unpacked without being installed. Undefined where
 * there is none to be had. TEST_REDIS names the one that tests are run with, and no other is taken then.
 */
export async function findRedisProgram(
  say: (sentence: string) => void,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const wanted = process.env.TEST_REDIS;
  if (wanted) {
    const program = await findProgram([wanted]);
    if (!program) say(`TEST_REDIS=${wanted}, but it is not on the PATH.`);
    return program;
  }
  return (await findProgram(PROGRAMS)) ?? unpackRedis(say, { signal });
}

/** Starts a Redis server of our own; undefined where there is none to be had. */
export async function startRedis(
  say: (sentence: string) => void,
  signal?: AbortSignal,
): Promise<RedisServer | undefined> {
  const program = await findRedisProgram(say, signal);
  if (!program) return undefined;
  const server = await startOnFreePort((port) => orderRedis(program, port), REDIS_READY);
  return { ...server, url: `redis://127.0.0.1:${server.port}/0` };
}

/** How such a server is run in a new folder. */
export async function orderRedis(program: string, port: number): Promise<Order & { folder: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'hotel-api-redis-'));
  return {
    command: [
      program,
      ...['--bind', '127.0.0.1', '--port', String(port), '--dir', folder, '--daemonize', 'no'],
      ...['--save', '', '--appendonly', 'no', '--databases', '128'],
    ],
    env: { PATH: process.env.PATH },
    cwd: folder,
    stopSignal: 'SIGTERM',
    killAfterMs: 3_000,
    folder,
  };
}
