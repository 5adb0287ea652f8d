import { setTimeout as wait } from 'node:timers/promises';
import { onClockStep, systemMs } from '../lib/clock.ts';
import { Events } from '../observability/events.ts';
import { watchWorker } from '../observability/instance-metrics.ts';
import { openLog } from '../observability/log.ts';
import { watchProcess } from '../observability/process-metrics.ts';
import { Base } from './base.ts';
import { drain } from './drain.ts';
import type { Start, ToPrimary, ToWorker } from './messages.ts';
import { buildWorker } from './parts.ts';

/** How long the worker waits for Redis before it starts without it. */
const REDIS_PATIENCE_MS = 500;
/** Likewise for PostgreSQL: what is cached can be answered without it. */
const POSTGRES_PATIENCE_MS = 300;
/** How long the worker waits to learn which keys exist before it starts without. */
const KEYS_PATIENCE_MS = 200;
const LEARN_AGAIN_MS = 1_000;
const REPORT_EVERY_MS = 1_000;
/** What queries under way may take when the connections are replaced. */
const RECONNECT_S = 1;

/** Builds one worker and starts it; returns what carries out what the primary says from then on. */
function startWorker({ config, documents, number, secret, ...feed }: Start): (message: ToWorker) => void {
  const base = new Base(config, 'worker');
  base.secret.use(secret);
  const { lifecycle, metrics, events } = base;
  const parts = buildWorker(base, documents, (asks) => tell({ type: 'ask', asks }));
  const {
    postgres,
    replicas,
    redis,
    local,
    listing,
    keyring,
    limiter,
    link,
    follower,
    gate,
    server,
    maxConnections,
  } = parts;

  const report = async () => tell({ type: 'metrics', metrics: await metrics.registry.getMetricsAsJSON() });
  const reporting = setInterval(report, REPORT_EVERY_MS);
  lifecycle.push('reports', () => clearInterval(reporting));

  let learning: NodeJS.Timeout | undefined;
  lifecycle.push('learning of keys', () => clearTimeout(learning));
  const learnKeys = () =>
    keyring.learn().catch(() => {
      clearTimeout(learning);
      learning = setTimeout(learnKeys, LEARN_AGAIN_MS);
    });
  const start = async () => {
    watchProcess(metrics.registry, String(number));
    watchWorker(metrics.registry, String(number), {
      gate,
      server,
      maxConnections,
      postgres,
      limits: { poolSize: config.DATABASE_POOL_SIZE, queueLimit: config.DATABASE_QUEUE_LIMIT },
      slab: local?.slab,
      link,
      replicas,
    });
    follower.useGeneration(feed.generation);
    await Promise.all([
      redis?.connected(REDIS_PATIENCE_MS),
      postgres.connected(POSTGRES_PATIENCE_MS),
      Promise.race([learnKeys(), wait(KEYS_PATIENCE_MS)]),
      replicas?.connected(POSTGRES_PATIENCE_MS),
    ]);
    // it may have been told to end meanwhile
    if (gate.closing) return;
    await server.listen(config.HOST, config.PORT);
    events.listening(config.PORT);
    tell({ type: 'listening' });
    listing.positions.prepare();
  };
  /** Answers what is under way, then ends the connections, the pools and the process. */
  const end = async () => {
    await drain(gate, server, config.DRAIN_TIMEOUT_MS);
    await report();
    const faults = await lifecycle.close();
    if (faults.length > 0) events.stopped(faults);
    process.disconnect?.();
    process.exit(0);
  };

  if (feed.heardAtMs > -Infinity) link.heard(feed.told, systemMs() - feed.heardAtMs);
  onClockStep((byMs) => follower.clockStepped(byMs));
  start().catch(fail);
  return (message) => {
    switch (message.type) {
      case 'feed':
        follower.hear(message.message, systemMs() - message.heardAtMs);
        break;
      case 'reconnected':
        postgres.isSaidToBeBack();
        break;
      case 'history':
        base.secret.use(message.secret);
        follower.clear(message.generation);
        // a connection may stand that leads to the server of before
        postgres.reconnect(RECONNECT_S);
        replicas?.reconnect(RECONNECT_S);
        learnKeys();
        break;
      case 'reset':
        follower.reset();
        learnKeys();
        break;
      case 'grant':
        limiter.hear(message.grants);
        break;
      case 'report metrics':
        report();
        break;
      case 'drain':
        end();
        break;
    }
  };
}

function tell(message: ToPrimary): void {
  if (process.connected) process.send!(message, () => {});
}

function fail(error: unknown): void {
  new Events(openLog('fatal', 'worker')).fatal(error);
  tell({ type: 'failed', reason: error instanceof Error ? error.message : String(error) });
  setTimeout(() => process.exit(1), 50);
}

// signals are for the primary, which tells the workers what to do; without it there is nothing to do
process.on('SIGINT', () => {});
process.on('SIGTERM', () => {});
process.on('disconnect', () => process.exit(0));
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);
let obey: ((message: ToWorker) => void) | undefined;
process.on('message', (message: ToWorker) => {
  if (obey) obey(message);
  else if (message.type === 'start') obey = startWorker(message);
  else if (message.type === 'drain') process.exit(0);
});
tell({ type: 'up' });
