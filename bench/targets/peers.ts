import { fileURLToPath } from 'node:url';
import { startOnFreePort } from '../../src/demo/servers/guarded.ts';
import { Client } from '../../test/support/client.ts';
import { pinned, type Target, type TargetOptions } from './target.ts';

/** Starts a script of this folder, one process, with its port and these arguments. */
function startScript(name: string, pin: string[], ...args: string[]): ReturnType<typeof startOnFreePort> {
  const script = fileURLToPath(new URL(`./${name}`, import.meta.url));
  return startOnFreePort(
    async (port) => ({
      command: pinned(pin, process.execPath, script, String(port), ...args),
      env: { PATH: process.env.PATH, NODE_ENV: 'production' },
      stopSignal: 'SIGTERM',
      killAfterMs: 2_000,
    }),
    /^ready/,
  );
}

/** Starts the Fastify peer. */
export async function startFastify({ pin, peerRedisUrl, databaseUrl, keys }: TargetOptions): Promise<Target> {
  const args = [peerRedisUrl, databaseUrl, keys.full, keys.narrow];
  return { name: 'fastify', ...(await startScript('fastify-server.ts', pin, ...args)) };
}

/** Starts the upper bound, with one or more processes. */
export async function startLimit(
  { pin }: TargetOptions,
  processes = 1,
  name: Target['name'] = 'limit',
): Promise<Target> {
  const server = await startScript('limit-server.ts', pin, String(processes));
  const answerWith = async (bodyBytes: number) => {
    await new Client(server.port, {}, false).request(`/length/${Math.round(bodyBytes)}`);
  };
  return { name, ...server, answerWith };
}
