import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Sql } from 'postgres';
import { Registry } from 'prom-client';
import type { Config } from '../config/config.ts';
import { openAdmin } from '../http/admin.ts';
import { pause } from '../lib/clock.ts';
import { DeadlineExceeded, withDeadline } from '../lib/deadline.ts';
import { Failure } from '../lib/failure.ts';
import { onStopSignals } from '../lib/stop-signals.ts';
import type { Events } from '../observability/events.ts';
import { watchInstance, watchProcess } from '../observability/scraped-metrics.ts';
import { openDatabase } from '../postgres/connect.ts';
import { openDetected, requireServingLogin } from '../postgres/logins.ts';
import { requireSchema } from '../postgres/migrate.ts';
import { divideDescriptors } from './descriptors.ts';
import { requireFreePort } from './free-port.ts';
import { ProcessContext } from './process-context.ts';
import { startWorkers } from './start-workers.ts';
import type { Workers } from './workers.ts';

/** Pause between attempts while PostgreSQL is unavailable or not migrated, and the timeout of one. */
const ATTEMPT_PAUSE_MS = 500;
const ATTEMPT_DEADLINE_MS = 3_000;

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

  const pooled = await awaitDatabase(config, events, () => stopping);
  if (pooled === undefined) return;
  workers = await startWorkers(context, pooled, () => stopping);
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

/**
 * Waits until PostgreSQL responds within 3 s to the queries of workers, and has this release's schema. Returns
 * undefined during shutdown; else true if DATABASE_URL leads through a pooler, so connections of all processes send no settings.
 */
async function awaitDatabase(
  config: Config,
  events: Events,
  isStopping: () => boolean,
): Promise<boolean | undefined> {
  for (let announced = ''; !isStopping(); await pause(ATTEMPT_PAUSE_MS)) {
    const opened: Sql[] = [];
    try {
      return await withDeadline(check(config, opened), ATTEMPT_DEADLINE_MS);
    } catch (error) {
      const isLate = error instanceof DeadlineExceeded;
      const reason = isLate
        ? `PostgreSQL did not answer within ${ATTEMPT_DEADLINE_MS} ms`
        : (error as Error).message;
      if (reason !== announced) events.notReadyYet(reason);
      announced = reason;
    } finally {
      for (const sql of opened) sql.end({ timeout: 0 }).catch(() => {});
    }
  }
  return undefined;
}

async function check(config: Config, opened: Sql[]): Promise<boolean> {
  const open = (pooled: boolean) => {
    const options = { kind: 'serve', deadlineMs: ATTEMPT_DEADLINE_MS, pooled } as const;
    const sql = openDatabase(config.DATABASE_URL, 1, options);
    opened.push(sql);
    return sql;
  };
  const { sql, pooled } = await openDetected(open).catch(async (error) => {
    // it may throw an error that says what to do
    await requireSchema(open(false));
    throw error;
  });
  await requireSchema(sql);
  if (pooled) await requireServingLogin(sql, config.DATABASE_TIMEOUT_MS);
  return pooled;
}
