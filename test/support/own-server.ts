import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject } from 'vitest';
import { type Guarded, type Order, runGuarded, startOnFreePort } from '../../src/demo/servers/guarded.ts';
import { orderPostgres, POSTGRES_READY } from '../../src/demo/servers/postgres.ts';
import { orderRedis, REDIS_READY } from '../../src/demo/servers/redis.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { closeAtEnd } from './cleanup.ts';
import type { FreshDatabase, FreshRedis } from './database.ts';
import { postgresClient } from './postgres-client.ts';
import { descendantsOf } from './processes.ts';
import { redisClient } from './redis-use.ts';

/** Server of one test file, which may be frozen, killed and restarted on its port with its data. */
export type OwnServer = Awaited<ReturnType<typeof ownServer>>;

export async function ownServer(
  orderFor: (port: number) => Promise<Order & { folder: string }>,
  ready: RegExp,
) {
  let kept: (Order & { folder: string }) | undefined;
  const first = await startOnFreePort(async (port) => {
    kept = await orderFor(port);
    // the folder would be removed at its first exit
    const { folder: _, ...order } = kept;
    return order;
  }, ready);
  const { port } = first;
  const { folder, ...order } = kept!;
  let server: Guarded = first;
  let isRunning = true;

  /** Signals the first process first, so that it starts no other. Each process of PostgreSQL leads its own group. */
  async function signalAll(signal: NodeJS.Signals): Promise<void> {
    const started = await descendantsOf(server.pid);
    process.kill(server.pid, signal);
    for (const child of new Set([...started, ...(await descendantsOf(server.pid))])) {
      try {
        process.kill(child, signal);
      } catch {
        // it has exited by itself
      }
    }
  }

  async function stop(): Promise<void> {
    if (!isRunning) return;
    await signalAll('SIGCONT');
    await server.stop();
    isRunning = false;
  }

  closeAtEnd(`server on port ${port}`, async () => {
    await stop();
    await rm(folder, { recursive: true, force: true });
  });
  return {
    port,
    stop,
    /** Stops every process of the server; connections stay, and the kernel accepts new ones. */
    freeze: () => signalAll('SIGSTOP'),
    thaw: () => signalAll('SIGCONT'),

    /** Kills all its processes at once. */
    async kill(): Promise<void> {
      await signalAll('SIGKILL');
      await server.exited;
      isRunning = false;
    },

    /** Restarts it after its exit, with additional arguments; resolves when it is ready, or has printed a match of `until`. */
    async restart(more: string[] = [], until = ready): Promise<void> {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const lines: string[] = [];
      server = await runGuarded({ ...order, command: [...order.command, ...more] }, (line) => {
        lines.push(line);
        if (until.test(line)) resolve();
      });
      isRunning = true;
      void server.exited.then(() => reject(new Error(`it ended again:\n${lines.join('\n')}`)));
      await promise;
    },
  };
}

/** Starts a program on a free port until the end of the test file, with these files in a folder of its own. */
export function ownProgram(
  command: (port: number, folder: string) => Order['command'],
  files: (port: number, folder: string) => Record<string, string>,
  ready: RegExp,
): Promise<OwnServer> {
  return ownServer(async (port) => {
    const folder = await mkdtemp(join(tmpdir(), 'hotel-api-program-'));
    await chmod(folder, 0o755);
    for (const [name, text] of Object.entries(files(port, folder))) await writeFile(join(folder, name), text);
    const env = { PATH: `${process.env.PATH}:/usr/sbin` };
    return {
      ...{ command: command(port, folder), env, cwd: folder, folder },
      ...{ stopSignal: 'SIGTERM' as const, killAfterMs: 5_000 },
    };
  }, ready);
}

/** Starts a Redis for one test file; further options replace those of `orderRedis`. */
export async function ownRedis(
  options: (port: number, folder: string) => string[] | Promise<string[]> = () => [],
  program = inject('servers').redisProgram,
): Promise<{ server: OwnServer; url: string }> {
  const server = await ownServer(async (port) => {
    if (!program) throw new Error("this file starts a Redis of its own: it lacks needs('redis-server')");
    const order = await orderRedis(program, port);
    order.command.push(...(await options(port, order.folder)));
    return order;
  }, REDIS_READY);
  return { server, url: `redis://127.0.0.1:${server.port}/0` };
}

/** Certificate files of a Redis. */
export interface RedisTls {
  key: string;
  certificate: string;
  authority: string;
}

/** Returns the options of a Redis that accepts TLS only. */
export const tlsOptions = (port: number, { key, certificate, authority }: RedisTls): string[] => [
  ...['--port', '0', '--tls-port', String(port), '--tls-cert-file', certificate, '--tls-key-file', key],
  ...['--tls-ca-cert-file', authority, '--tls-auth-clients', 'no'],
];

/** Returns a Redis of the file's own for services. */
export function redisAt(url: string): FreshRedis {
  return { url, client: redisClient(url), release: async () => {} };
}

/** Returns a database of a server of the file's own for services. */
export function databaseAt(url: string, ownerUrl: string, sql = postgresClient(ownerUrl)): FreshDatabase {
  return { name: new URL(ownerUrl).pathname.slice(1), url, ownerUrl, sql, drop: async () => {} };
}

/**
 * Starts a migrated PostgreSQL for one test file, with the login of the service. The folder of its programs, further
 * settings and variables of its environment may be given.
 */
export async function ownPostgres(
  maxConnections: number,
  programs?: string,
  settings: Record<string, string> = {},
  env: Record<string, string> = {},
): Promise<{ server: OwnServer; url: string; ownerUrl: string }> {
  const password = randomBytes(16).toString('hex');
  const server = await ownServer(async (port) => {
    const order = await orderPostgres(port, { maxConnections, password, programs });
    order.command.push(...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]));
    Object.assign(order.env, env);
    return order;
  }, POSTGRES_READY);
  const ownerUrl = `postgres://postgres:${password}@127.0.0.1:${server.port}/postgres`;
  const sql = postgresClient(ownerUrl);
  await migrate(sql);
  await sql.unsafe(`create role service login password '${password}' in role hotel_api_serve`);
  await sql.end();
  return { server, ownerUrl, url: Object.assign(new URL(ownerUrl), { username: 'service' }).href };
}
