import { runGuarded } from '../../src/demo/servers/guarded.ts';
import { freePort } from '../../src/demo/servers/port.ts';
import { serviceOrder, untilReady } from '../../src/demo/service.ts';
import { Client } from '../../test/support/client.ts';
import { pinned, type Target, type TargetName, type TargetOptions } from './target.ts';

/** Starts the service like `npm start`, with one worker; resolves when it is ready. */
export async function startService(
  { pin, databaseUrl, redisUrl }: TargetOptions,
  options: {
    name: TargetName;
    root?: string | undefined;
    environment?: Record<string, string>;
    nodeOptions?: string[];
  },
): Promise<Target> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const order = serviceOrder(
    { databaseUrl, redisUrl, port, adminPort },
    {
      NODE_OPTIONS: (options.nodeOptions ?? []).join(' '),
      WORKERS: '1',
      // the load generators keep their connections
      CONNECTION_MAX_AGE_S: '0',
      // each scenario fills the caches that it needs
      WARMUP_TIMEOUT_MS: '0',
      ...options.environment,
    },
  );
  order.command = pinned(pin, ...order.command);
  if (options.root) order.cwd = options.root;
  const server = await runGuarded(order, (line) => {
    if (process.env.BENCH_LOG) console.error(`${options.name}: ${line}`);
  });
  await untilReady(server, adminPort, options.name).catch(async (error) => {
    await server.stop();
    throw error;
  });
  return { name: options.name, port, adminPort, pid: server.pid, stop: server.stop };
}

/** Returns the sum of a metric's samples with `label` among their labels; 0 if there are none. */
export async function readMetric(target: Target, name: string, label = ''): Promise<number> {
  let sum = 0;
  for (const line of await readMetrics(target)) {
    if (line.startsWith(name) && line.includes(label)) sum += Number(line.slice(line.lastIndexOf(' ') + 1));
  }
  return sum;
}

/** Returns the cumulative buckets of the first worker's series of a histogram, by upper bound. */
export async function readBuckets(target: Target, name: string): Promise<[le: number, count: number][]> {
  return (await readMetrics(target))
    .filter((line) => line.startsWith(`${name}_bucket{`) && line.includes('worker="1"'))
    .map((line): [number, number] => [
      Number(/le="([^"]+)"/.exec(line)![1]!.replace('+Inf', 'Infinity')),
      Number(line.slice(line.lastIndexOf(' ') + 1)),
    ])
    .sort(([a], [b]) => a - b);
}

/** Returns the lines of the exposition. */
async function readMetrics({ adminPort }: Target): Promise<string[]> {
  return (await new Client(adminPort!, {}, false).request('/metrics')).text.split('\n');
}
