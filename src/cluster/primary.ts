import { Registry } from 'prom-client';
import { writeDocuments } from '../api-docs/documents.ts';
import type { Config } from '../config/config.ts';
import { unverifiedAddressesOf } from '../config/connection-addresses.ts';
import { openAdmin } from '../http/admin.ts';
import { monotonicMs, pause } from '../lib/clock.ts';
import { Failure } from '../lib/failure.ts';
import { watchInstance } from '../observability/instance-metrics.ts';
import { defaultMetrics, watchProcess } from '../observability/process-metrics.ts';
import { awaitDatabase } from './await-database.ts';
import { forbidCoreDumps } from './core-dumps.ts';
import { divideDescriptors } from './descriptors.ts';
import { followLog } from './follow-log.ts';
import { requireFreePort } from './free-port.ts';
import { ProcessContext } from './process-context.ts';
import { Workers } from './workers.ts';

/** Margin for the drain of the workers beyond its deadline. */
const DRAIN_MARGIN_MS = 2_000;
/** Margin for the exit of a worker that was killed after it. */
const KILL_MARGIN_MS = 1_000;
/**
 * Interval in which a repeated signal counts as the same one: npm forwards the signal that the terminal has already
 * sent.
 */
const SAME_SIGNAL_MS = 500;

/**
 * Runs one instance until a signal ends it: the admin port, the follower of the log and the workers. Never returns; exits 0
 * if everything ended in order.
 */
export async function runPrimary(given: Config): Promise<void> {
  await requireFreePort(given.HOST, given.PORT);
  const context = new ProcessContext(given, 'primary');
  const { config, shutdown, metrics, events } = context;
  let workers: Workers | undefined;
  watchProcess(metrics.registry, 'primary');
  const readDefaults = defaultMetrics('primary');
  const ownMetrics = async () => [await metrics.registry.getMetricsAsJSON(), await readDefaults()];
  watchInstance(metrics.registry, config.WORKERS, () => workers?.listening ?? 0);
  let stopping = false;
  let signalledAtMs = -Infinity;

  const stop = async (signal: string) => {
    if (stopping) {
      if (monotonicMs() - signalledAtMs < SAME_SIGNAL_MS) return;
      workers?.kill();
      process.exit(1);
    }
    stopping = true;
    signalledAtMs = monotonicMs();
    events.stopping(signal);
    if (workers && workers.listening > 0) await pause(config.DRAIN_WAIT_MS);
    events.stopped(await shutdown.close());
    process.exit(0);
  };
  process.on('SIGTERM', () => stop('SIGTERM'));
  process.on('SIGINT', () => stop('SIGINT'));

  events.starting({
    workers: config.WORKERS,
    port: config.PORT,
    adminPort: config.ADMIN_PORT,
    redis: config.REDIS_URL !== '',
  });
  if (config.REDIS_URL === '') events.withoutRedis();
  for (const [variable, mode] of unverifiedAddressesOf(config)) events.postgresNotVerified(variable, mode);
  const whyDumps = await forbidCoreDumps();
  if (whyDumps !== undefined) events.coreDumpsPossible(whyDumps);
  const descriptors = divideDescriptors(config);
  if (descriptors.isLow) events.fewDescriptors(descriptors.limit, descriptors.connections);
  const admin = await openAdmin(config.ADMIN_HOST, config.ADMIN_PORT, {
    isReady: () => !stopping && workers !== undefined && workers.ready,
    metrics: () =>
      workers
        ? workers.gather(ownMetrics)
        : ownMetrics().then((own) => Registry.aggregate(own as never).metrics()),
    contentType: Registry.PROMETHEUS_CONTENT_TYPE,
  }).catch((error: Error) => {
    throw new Failure(`The admin port cannot be opened: ${error.message}`);
  });
  shutdown.push('admin port', () => admin.close());

  const found = await awaitDatabase(config, events, () => stopping);
  if (found === undefined) return;
  const { pooled } = found;
  const log = followLog(context, pooled, {
    onHistory: ({ history, position, secret }, prefix) =>
      workers?.broadcast({ type: 'history', history, position, prefix, secret }),
    onRestart: (prefix) => workers?.broadcast({ type: 'restarted', prefix }),
    onNews: (news) => workers?.broadcast({ type: 'log', news }),
    onLearned: (rows, floor) => workers?.broadcast({ type: 'learned', rows, floor }),
    onReachable: () => workers?.broadcast({ type: 'reachable' }),
  });
  await log.follower.start();

  if (stopping) return;
  const documents = writeDocuments({
    basePath: config.BASE_PATH,
    publicUrl: config.PUBLIC_URL,
    supportEmail: config.SUPPORT_EMAIL,
  });
  workers = new Workers(
    config.WORKERS,
    (number, mayWarmUp) => ({
      type: 'start',
      number,
      warmUpMs: mayWarmUp ? config.WARMUP_TIMEOUT_MS : 0,
      config,
      documents,
      pooled,
      log: log.state(),
      lateAnswerMs: workers?.lateAnswerMs,
    }),
    metrics,
    events,
    config.RATE_LIMIT_SCOPE === 'redis' && log.redis
      ? (name, use) => log.redis!.countWindow(`${log.prefixOf()}:l:${name}`, use)
      : undefined,
  );
  const drainMs = config.DRAIN_TIMEOUT_MS + DRAIN_MARGIN_MS;
  shutdown.push('workers', () => workers!.stop(drainMs), drainMs + KILL_MARGIN_MS);
}
