import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Registry } from 'prom-client';
import type { Config } from '../config/config.ts';
import { openAdmin } from '../http/admin.ts';
import { pause } from '../lib/clock.ts';
import { Failure } from '../lib/failure.ts';
import { onStopSignals } from '../lib/stop-signals.ts';
import { watchInstance, watchProcess } from '../observability/scraped-metrics.ts';
import { awaitDatabase } from './await-database.ts';
import { divideDescriptors } from './descriptors.ts';
import { requireFreePort } from './free-port.ts';
import { ProcessContext } from './process-context.ts';
import { startWorkers } from './start-workers.ts';
import type { Workers } from './workers.ts';

/**
 * Starts one instance: the admin port, the follower of the log and the workers. The process ends at a signal, with exit code 0
 * if everything ended in order.
 */
export async function runPrimary(given: Config): Promise<void> {
  await requireFreePort(given.HOST, given.PORT);
  const context = new ProcessContext(given, 'primary');
  const { config, shutdown, metrics, events } = context;
  let workers: Workers | undefined;
  const readMetrics = watchProcess(metrics.registry, 'primary');
  watchInstance(metrics.registry, config.WORKERS, () => workers?.listening ?? 0);
  let stopping = false;

  const stop = async (signal: string) => {
    stopping = true;
    events.stopping(signal);
    if (workers && workers.listening > 0) await pause(config.DRAIN_WAIT_MS);
    events.stopped(await shutdown.close());
    process.exit(0);
  };
  onStopSignals(['SIGTERM', 'SIGINT'], stop, () => {
    workers?.kill();
    process.exit(1);
  });

  events.starting({
    workers: config.WORKERS,
    port: config.PORT,
    adminPort: config.ADMIN_PORT,
    redis: config.REDIS_URL !== '',
  });
  if (config.REDIS_URL === '') events.withoutRedis();
  const reason = await forbidCoreDumps();
  if (reason !== undefined) events.coreDumpsPossible(reason);
  const descriptors = divideDescriptors(config);
  if (descriptors.isLow) events.fewDescriptors(descriptors.limit, descriptors.connections);
  const admin = await openAdmin(config.ADMIN_HOST, config.ADMIN_PORT, {
    isReady: () => !stopping && workers !== undefined && workers.ready,
    metrics: () =>
      workers
        ? workers.gather(readMetrics)
        : readMetrics().then((own) => Registry.aggregate([own] as never).metrics()),
    contentType: Registry.PROMETHEUS_CONTENT_TYPE,
  }).catch((error: Error) => {
    throw new Failure(`The admin port cannot be opened: ${error.message}`);
  });
  shutdown.push('admin port', () => admin.close());

  const found = await awaitDatabase(config, events, () => stopping);
  if (found === undefined) return;
  workers = await startWorkers(context, found.pooled, () => stopping);
}

/**
 * Prevents core files of this process and of those it starts from now on: their memory holds passwords and keys of
 * clients. With a limit of 1 byte, Linux writes no core file and starts no handler; with 0 it ignores the limit if a handler
 * is set. On other systems the limit is 0 by default. Returns the reason if that failed, else undefined.
 */
async function forbidCoreDumps(): Promise<string | undefined> {
  if (process.platform !== 'linux') return undefined;
  return promisify(execFile)('prlimit', ['--pid', String(process.pid), '--core=1:1']).then(
    () => undefined,
    (error: Error) => `prlimit of util-linux failed: ${error.message.trim()}`,
  );
}
