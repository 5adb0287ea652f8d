import { fileURLToPath } from 'node:url';
import { startOnFreePort } from '../../src/demo/servers/server.ts';
import { pinned, type Target, type TargetOptions } from './target.ts';

function script(name: string): string {
  return fileURLToPath(new URL(`./${name}`, import.meta.url));
}

/** Starts the Fastify peer, one process. */
export async function startFastify(around: TargetOptions): Promise<Target> {
  const { pin, peerRedisUrl, databaseUrl, keys } = around;
  const server = await startOnFreePort(
    async (port) => ({
      command: pinned(
        pin,
        process.execPath,
        script('fastify-server.ts'),
        String(port),
        peerRedisUrl,
        databaseUrl,
        keys.full,
        keys.narrow,
      ),
      env: { PATH: process.env.PATH, NODE_ENV: 'production' },
      stopSignal: 'SIGTERM',
      killAfterMs: 2_000,
    }),
    /^ready/,
  );
  return { name: 'fastify', ...server };
}

/** Starts the limit, one process. */
export async function startLimit({ pin }: TargetOptions): Promise<Target> {
  const server = await startOnFreePort(
    async (port) => ({
      command: pinned(pin, process.execPath, script('limit-server.ts'), String(port)),
      env: { PATH: process.env.PATH },
      stopSignal: 'SIGTERM',
      killAfterMs: 2_000,
    }),
    /^ready/,
  );
  const answerWith = async (bodyBytes: number) => {
    await (await fetch(`http://127.0.0.1:${server.port}/length/${Math.round(bodyBytes)}`)).arrayBuffer();
  };
  return { name: 'limit', ...server, answerWith };
}
