import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { runGuarded } from '../../src/demo/servers/guarded.ts';
import { freePort } from '../../src/demo/servers/port.ts';
import { pinned, type Target, type TargetName, type TargetOptions } from './target.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const READY_TIMEOUT_MS = 30_000;

/** Starts the service like `npm start`, with one worker; resolves when it is ready. */
export async function startService(
  { pin, databaseUrl, redisUrl }: TargetOptions,
  options: { name: TargetName; root?: string; environment?: Record<string, string>; nodeOptions?: string[] },
): Promise<Target> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const lines: string[] = [];
  let ended = false;
  const server = await runGuarded(
    {
      command: pinned(pin, process.execPath, 'src/main.ts', 'serve'),
      cwd: options.root ?? ROOT,
      env: {
        PATH: process.env.PATH,
        NODE_OPTIONS: (options.nodeOptions ?? []).join(' '),
        DATABASE_URL: databaseUrl,
        REDIS_URL: redisUrl,
        HOST: '127.0.0.1',
        PORT: String(port),
        ADMIN_HOST: '127.0.0.1',
        ADMIN_PORT: String(adminPort),
        WORKERS: '1',
        // the load generators keep their connections
        CONNECTION_MAX_AGE_S: '0',
        // each scenario fills the caches that it needs
        WARMUP_TIMEOUT_MS: '0',
        LOG_LEVEL: 'info',
        DRAIN_WAIT_MS: '0',
        ...options.environment,
      },
      stopSignal: 'SIGTERM',
      killAfterMs: 10_000,
    },
    (line) => {
      if (lines.push(line) > 20) lines.shift();
      if (process.env.BENCH_LOG) console.error(`${options.name}: ${line}`);
    },
  );
  void server.exited.then(() => {
    ended = true;
  });
  const untilMs = performance.now() + READY_TIMEOUT_MS;
  while (!(await isReady(adminPort))) {
    if (ended || performance.now() > untilMs) {
      await server.stop();
      throw new Error(
        [`${options.name} ${ended ? 'ended' : 'was not ready'} at its start`, ...lines].join('\n'),
      );
    }
    await sleep(25);
  }
  return { name: options.name, port, adminPort, pid: server.pid, stop: server.stop };
}

async function isReady(adminPort: number): Promise<boolean> {
  const answer = await fetch(`http://127.0.0.1:${adminPort}/readyz`, {
    signal: AbortSignal.timeout(2_000),
  }).catch(() => undefined);
  await answer?.arrayBuffer();
  return answer?.ok ?? false;
}

/** Returns the sum of a metric's samples with `label` among their labels; 0 if there are none. */
export async function readMetric(target: Target, name: string, label = ''): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${target.adminPort}/metrics`)).text();
  let sum = 0;
  for (const line of text.split('\n')) {
    if (line.startsWith(name) && line.includes(label)) sum += Number(line.slice(line.lastIndexOf(' ') + 1));
  }
  return sum;
}

/** Returns the cumulative buckets of a histogram's series with `label` among their labels, by upper bound. */
export async function readBuckets(
  target: Target,
  name: string,
  label: string,
): Promise<[le: number, count: number][]> {
  const text = await (await fetch(`http://127.0.0.1:${target.adminPort}/metrics`)).text();
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name}_bucket{`) && line.includes(label))
    .map((line): [number, number] => [
      Number(/le="([^"]+)"/.exec(line)![1]!.replace('+Inf', 'Infinity')),
      Number(line.slice(line.lastIndexOf(' ') + 1)),
    ])
    .sort(([a], [b]) => a - b);
}
