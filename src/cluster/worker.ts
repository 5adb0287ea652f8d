import type { WarmUpResult } from '../cache/warm-up.ts';
import {
  clearTimer,
  every,
  fromSystemMs,
  onClockStep,
  pause,
  random,
  setTimer,
  type Timer,
  toSystemMs,
  wallMs,
} from '../lib/clock.ts';
import { Events } from '../observability/events.ts';
import { watchWorker } from '../observability/instance-metrics.ts';
import { openLog } from '../observability/log.ts';
import { defaultMetrics, watchProcess } from '../observability/process-metrics.ts';
import { loginOf } from '../redis/store.ts';
import { buildWorker } from './build-worker.ts';
import { drain } from './drain.ts';
import type { Start, ToPrimary, ToWorker } from './messages.ts';
import { ProcessContext } from './process-context.ts';

/** Time that the worker waits for Redis at its start. */
const REDIS_TIMEOUT_MS = 500;
/** The same for PostgreSQL: cached hotels can be served without it. */
const POSTGRES_TIMEOUT_MS = 300;
/** Time that the worker waits for the list of existing keys at its start. */
const PRELOAD_TIMEOUT_MS = 200;
const PRELOAD_RETRY_MS = 1_000;
const REPORT_EVERY_MS = 1_000;
/** Mean interval in which an instance saves ids in use for instances that start. */
const SAVE_HOT_IDS_MS = 60_000;
/** Time for running queries when the connections are replaced. */
const RECONNECT_S = 1;

/** Builds and starts one worker; returns the function that executes the primary's messages. */
function startWorker({
  config,
  documents,
  number,
  pooled,
  warmUpMs,
  log,
  lateAnswerMs,
}: Start): (message: ToWorker) => void {
  const context = new ProcessContext(config, 'worker');
  context.secret.use(log.secret);
  const { shutdown, metrics, events } = context;
  const parts = buildWorker(
    context,
    { documents, number, pooled },
    (requests) => send({ type: 'leases', requests }),
    (atMs) => send({ type: 'late answer', atMs: toSystemMs(atMs) }),
  );
  const { postgres, origin, redis, hotIds, apiKeys, logApplier, logPositions, pipeline, server } = parts;

  context.onAddressChange((name) => {
    if (name === 'REDIS_URL') redis?.useLogin(loginOf(context.config.REDIS_URL));
    if (name === 'DATABASE_URL') postgres.reconnect(RECONNECT_S);
    if (name === 'DATABASE_REPLICA_URLS') origin.reconnect(RECONNECT_S);
  });

  const readDefaults = defaultMetrics(String(number));
  const report = async (isScraped = false) => {
    const ofProcess = isScraped ? await readDefaults() : undefined;
    const json = await metrics.registry.getMetricsAsJSON();
    send({ type: 'metrics', metrics: json, defaultMetrics: ofProcess });
  };
  const reporting = every(() => report(), REPORT_EVERY_MS);
  shutdown.push('reports', () => clearTimer(reporting));

  let warmedUp: WarmUpResult | undefined;
  let preloading: Timer | undefined;
  shutdown.push('preload of keys', () => clearTimer(preloading));
  const preloadKeys = () =>
    apiKeys.preload().catch(() => {
      clearTimer(preloading);
      preloading = setTimer(preloadKeys, PRELOAD_RETRY_MS);
    });
  const start = async () => {
    watchProcess(metrics.registry, String(number));
    watchWorker(metrics.registry, String(number), {
      ...parts,
      limits: { poolSize: config.DATABASE_POOL_SIZE, queueLimit: config.DATABASE_QUEUE_LIMIT },
      arena: parts.local?.arena,
      warmUp: () => warmedUp,
      waiters: logPositions,
    });
    const [isRedisUp = true] = await Promise.all([
      redis?.connected(REDIS_TIMEOUT_MS),
      postgres.connected(POSTGRES_TIMEOUT_MS),
      Promise.race([preloadKeys(), pause(PRELOAD_TIMEOUT_MS)]),
      origin.connected(POSTGRES_TIMEOUT_MS),
    ]);
    // without its Redis, an instance must not load the more from PostgreSQL
    if (parts.warmUp && warmUpMs > 0 && isRedisUp) {
      warmedUp = await parts.warmUp.run(warmUpMs);
      events.warmedUp(warmedUp);
    }
    // the worker may have received a stop meanwhile
    if (pipeline.closing) return;
    await server.listen(config.HOST, config.PORT);
    events.listening(config.PORT);
    send({ type: 'listening' });
    parts.hotelList.index.prepare();
    saveHotIds(random());
  };
  let saving: Timer | undefined;
  shutdown.push('ids in use', () => clearTimer(saving));
  /** Saves the ids in use after this share of the interval, and again after each. */
  const saveHotIds = (share: number) => {
    if (!hotIds) return;
    saving = setTimer(
      () => hotIds.save().then(() => saveHotIds(1)),
      share * config.WORKERS * SAVE_HOT_IDS_MS,
    );
  };
  /** Answers pending requests, then closes the connections and pools and ends the process. */
  const end = async () => {
    logPositions.release();
    await drain(pipeline, server, config.DRAIN_TIMEOUT_MS);
    await report();
    const faults = await shutdown.close();
    if (faults.length > 0) events.stopped(faults);
    process.disconnect?.();
    process.exit(0);
  };

  logApplier.start(log);
  if (lateAnswerMs !== undefined) parts.freshness.answered(fromSystemMs(lateAnswerMs));
  onClockStep((byMs, sleptMs) => {
    if (sleptMs > 0) parts.freshness.slept(sleptMs);
    // entries of a midnight that the clock has gone back before
    const nowMs = wallMs();
    const isOtherDay = new Date(nowMs - byMs).getUTCDate() !== new Date(nowMs).getUTCDate();
    if (byMs < 0 && isOtherDay) parts.local?.clear();
  });
  start().catch(fail);
  return (message) => {
    switch (message.type) {
      case 'log':
        logApplier.apply(message.news);
        break;
      case 'learned':
        logApplier.learn(message.rows, message.floor);
        break;
      case 'reachable':
        postgres.reachable();
        break;
      case 'restarted':
        logApplier.serverRestarted(message.prefix);
        break;
      case 'history':
        context.secret.use(message.secret);
        logApplier.begin(message.history, message.position, message.prefix);
        // a connection to the previous server may be open
        postgres.reconnect(RECONNECT_S);
        origin.reconnect(RECONNECT_S);
        preloadKeys();
        break;
      case 'grant':
        parts.limiter.receive(message.grants);
        break;
      case 'grants of others':
        parts.limiter.receiveOfOthers(message.grants);
        break;
      case 'report metrics':
        report(true);
        break;
      case 'drain':
        end();
        break;
    }
  };
}

function send(message: ToPrimary): void {
  if (process.connected) process.send!(message, () => {});
}

function fail(error: unknown): void {
  new Events(openLog('fatal', 'worker')).fatal(error);
  send({ type: 'failed', reason: error instanceof Error ? error.message : String(error) });
  setTimer(() => process.exit(1), 50);
}

// signals are handled by the primary, which informs the workers; without a primary the worker ends
process.on('SIGINT', () => {});
process.on('SIGTERM', () => {});
process.on('disconnect', () => process.exit(0));
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);
let dispatch: ((message: ToWorker) => void) | undefined;
process.on('message', (message: ToWorker) => {
  if (dispatch) dispatch(message);
  else if (message.type === 'start') dispatch = startWorker(message);
  else if (message.type === 'drain') process.exit(0);
});
send({ type: 'up' });
