import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Shutdown } from '../lib/shutdown.ts';
import { type Guarded, runGuarded } from './servers/guarded.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const READY_TIMEOUT_MS = 30_000;
const LINES_SHOWN = 20;

/** Starts the service like `npm start` and resolves when it is ready. Its warnings go to standard error. */
export async function startService(options: {
  databaseUrl: string;
  redisUrl: string | undefined;
  port: number;
  adminPort: number;
  workers: number;
  /** removed after the service has exited */
  folder: string;
  shutdown: Shutdown;
}): Promise<Guarded> {
  const lines: string[] = [];
  let ready = false;
  const running = runGuarded(
    {
      command: [process.execPath, 'src/main.ts', 'serve'],
      cwd: ROOT,
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        DATABASE_URL: options.databaseUrl,
        REDIS_URL: options.redisUrl,
        HOST: '127.0.0.1',
        PORT: String(options.port),
        ADMIN_HOST: '127.0.0.1',
        ADMIN_PORT: String(options.adminPort),
        WORKERS: String(options.workers),
        LOG_LEVEL: process.env.LOG_LEVEL || 'warn',
        DRAIN_WAIT_MS: '0',
      },
      stopSignal: 'SIGTERM',
      killAfterMs: 10_000,
      folder: options.folder,
    },
    (line) => {
      if (ready) console.error(line);
      else if (lines.push(line) > LINES_SHOWN) lines.shift();
    },
  );
  options.shutdown.push('service', async () => (await running.catch(() => undefined))?.stop(), 12_000);
  const service = await running;
  let state = 'did not become ready';
  service.exited.then(({ code, signal }) => {
    state = `ended with ${signal ?? `code ${code}`}`;
  });
  const until = performance.now() + READY_TIMEOUT_MS;
  while (!(await isReady(options.adminPort))) {
    if (state.startsWith('ended') || performance.now() > until) {
      throw new Error([`the service ${state}`, ...lines].join('\n'));
    }
    await sleep(25);
  }
  ready = true;
  return service;
}

async function isReady(adminPort: number): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${adminPort}/readyz`, {
      signal: AbortSignal.timeout(2_000),
    });
    await answer.arrayBuffer();
    return answer.ok;
  } catch {
    return false;
  }
}
