import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Guarded, Order } from './servers/guarded.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const READY_TIMEOUT_MS = 30_000;

/** Addresses of a service. */
export interface Addresses {
  databaseUrl: string;
  redisUrl: string | undefined;
  port: number;
  adminPort: number;
}

/** Returns the order that runs the service like `npm start`, on the loopback and with these variables. */
export function serviceOrder(
  { databaseUrl, redisUrl, port, adminPort }: Addresses,
  variables: NodeJS.ProcessEnv,
): Order {
  return {
    command: [process.execPath, 'src/main.ts', 'serve'],
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      DATABASE_URL: databaseUrl,
      REDIS_URL: redisUrl,
      HOST: '127.0.0.1',
      PORT: String(port),
      ADMIN_HOST: '127.0.0.1',
      ADMIN_PORT: String(adminPort),
      LOG_LEVEL: 'info',
      DRAIN_WAIT_MS: '0',
      ...variables,
    },
    stopSignal: 'SIGTERM',
    killAfterMs: 10_000,
  };
}

/** Resolves when the service is ready. Throws with its last lines if it exits first or takes longer than 30 s. */
export async function untilReady({ exited, lines }: Guarded, adminPort: number, name: string): Promise<void> {
  let state = 'did not become ready';
  void exited.then(({ code, signal }) => {
    state = `ended with ${signal ?? `code ${code}`}`;
  });
  const untilMs = performance.now() + READY_TIMEOUT_MS;
  while (!(await isReady(adminPort))) {
    if (state.startsWith('ended') || performance.now() > untilMs)
      throw new Error([`${name} ${state}`, ...lines].join('\n'));
    await sleep(25);
  }
}

async function isReady(adminPort: number): Promise<boolean> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/readyz`, {
    signal: AbortSignal.timeout(2_000),
  }).catch(() => undefined);
  await response?.arrayBuffer().catch(() => {});
  return response?.ok ?? false;
}
