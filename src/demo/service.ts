import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { VARIABLES } from '../config/config.ts';
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

/** Variables that belong to the servers and the addresses of the demo. */
const OF_DEMO = /_URLS?(_FILE)?$|^(BASE_PATH|DATABASE_POOL_SIZE)$/;

/** Returns the other variables of the service that the user has set. */
function variablesOfUser(): NodeJS.ProcessEnv {
  const isSetting = (name: string) => name in VARIABLES && !OF_DEMO.test(name);
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => isSetting(name)));
}

/**
 * Returns the order that runs the service of the demo. It gets the variables of the user that the demo does not set.
 * `folder` is removed after its exit.
 */
export function demoOrder(addresses: Addresses, workers: number, folder: string): Order {
  const variables = { WORKERS: String(workers), LOG_LEVEL: process.env.LOG_LEVEL || 'warn' };
  const order = serviceOrder(addresses, variables);
  return { ...order, env: { ...variablesOfUser(), ...order.env }, folder };
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
