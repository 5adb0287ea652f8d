import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { VARIABLES } from '../config/config.ts';
import type { Shutdown } from '../lib/shutdown.ts';
import { type Guarded, type Order, runGuarded } from './servers/guarded.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const READY_TIMEOUT_MS = 30_000;
const LINES_SHOWN = 20;

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
 * Starts the service and resolves when it is ready. The service gets the variables of the user that the demo does not
 * set. Its warnings go to standard error. `folder` is removed after its exit.
 */
export async function startDemoService(
  options: Addresses & { workers: number; folder: string; shutdown: Shutdown },
): Promise<Guarded> {
  const lines: string[] = [];
  let ready = false;
  const order = serviceOrder(options, {
    WORKERS: String(options.workers),
    LOG_LEVEL: process.env.LOG_LEVEL || 'warn',
  });
  const env = { ...variablesOfUser(), ...order.env };
  const running = runGuarded({ ...order, env, folder: options.folder }, (line) => {
    if (ready) console.error(line);
    else if (lines.push(line) > LINES_SHOWN) lines.shift();
  });
  options.shutdown.push('service', async () => (await running.catch(() => undefined))?.stop(), 12_000);
  const service = await running;
  await untilReady(service, options.adminPort, 'the service', lines);
  ready = true;
  return service;
}

/** Resolves when the service is ready. Throws with `lines` if it exits first or takes longer than 30 s. */
export async function untilReady(
  { exited }: Guarded,
  adminPort: number,
  name: string,
  lines: readonly string[],
): Promise<void> {
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

export async function isReady(adminPort: number): Promise<boolean> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/readyz`, {
    signal: AbortSignal.timeout(2_000),
  }).catch(() => undefined);
  await response?.arrayBuffer().catch(() => {});
  return response?.ok ?? false;
}
