import type { RequestPipeline } from '../http/request-pipeline.ts';
import type { Server } from '../http/server.ts';
import { monotonicMs, pause } from '../lib/clock.ts';
import { Events } from '../observability/events.ts';
import { openLog } from '../observability/log.ts';
import { watchProcess, watchWorker } from '../observability/scraped-metrics.ts';
import { buildWorker } from './build-worker.ts';
import { ProcessContext } from './process-context.ts';
import type { Start, ToPrimary, ToWorker } from './workers.ts';

/** Interval of reports. A worker that is killed loses the use of keys since the last one. */
const REPORT_EVERY_MS = 1_000;
const CHECK_MS = 10;
/** Checks without a request after which connections may be closed during shutdown: half a second. */
const IDLE_CHECKS = 50;

/** Starts one worker in this process; returns the function that executes the messages of the primary process. */
function startWorker(start: Start): (message: ToWorker) => void {
  const { config } = start;
  const number = String(start.number);
  const context = new ProcessContext(config, 'worker');
  const { shutdown, metrics, events } = context;
  const worker = buildWorker(context, start, send);
  const { logApplier, limiter, logPositions, pipeline, server, local, usage } = worker;

  const readMetrics = watchProcess(metrics.registry, number);
  watchWorker(metrics.registry, number, {
    ...worker,
    limits: { poolSize: config.DATABASE_POOL_SIZE, queueLimit: config.DATABASE_QUEUE_LIMIT },
    arena: local?.arena,
    waiters: logPositions,
  });
  const report = () => send({ type: 'alive', usage: usage.take() });
  context.repeat(report, REPORT_EVERY_MS);
  /** Answers pending requests, then closes the connections and pools and ends the process. */
  const end = async () => {
    logPositions.release();
    await drain(pipeline, server, config.DRAIN_TIMEOUT_MS);
    report();
    const faults = await shutdown.close();
    if (faults.length > 0) events.stopped(faults);
    await lastMessage;
    process.disconnect?.();
    process.exit(0);
  };

  worker.start().catch(fail);
  return (message) => {
    if (message.type === 'report metrics')
      void readMetrics().then((metrics) => send({ type: 'metrics', metrics }));
    else if (message.type === 'drain') end();
    else if (message.type === 'grant') limiter.receive(message.grants);
    else if (message.type !== 'start') logApplier.receive(message);
  };
}

/**
 * Stops accepting connections. Resolves when every request is answered and clients are idle, or after `timeoutMs`.
 */
async function drain(pipeline: RequestPipeline, server: Server, timeoutMs: number): Promise<void> {
  pipeline.closing = true;
  await server.stopAccepting();
  const untilMs = monotonicMs() + timeoutMs;
  let finished = pipeline.finishedCount;
  let idleChecks = 0;
  while (server.connections > 0 && monotonicMs() < untilMs && idleChecks < IDLE_CHECKS) {
    await pause(CHECK_MS);
    const isIdle = pipeline.unfinished === 0 && pipeline.finishedCount === finished;
    idleChecks = isIdle ? idleChecks + 1 : 0;
    finished = pipeline.finishedCount;
  }
}

/** Settles when the last message is sent. */
let lastMessage: Promise<void> = Promise.resolve();

function send(message: ToPrimary): void {
  if (!process.connected) return;
  lastMessage = new Promise((resolve) => process.send!(message, () => resolve()));
}

function fail(error: unknown): void {
  new Events(openLog('fatal', 'worker')).fatal(error);
  process.exit(1);
}

// the primary process handles signals and informs the workers; a worker without a primary process ends
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
