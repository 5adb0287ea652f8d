import { onClockStep, pause, setTimer } from '../lib/clock.ts';
import { buildWorker } from './build-worker.ts';
import type { Start, ToPrimary, ToWorker } from './messages.ts';
import type { ProcessContext } from './process-context.ts';

/** Minimum time that the worker waits for Redis at its start: as long as a command may take, if that is longer. */
const MIN_REDIS_TIMEOUT_MS = 500;
/** Time that it waits for PostgreSQL: cached hotels can be served without it. */
const POSTGRES_TIMEOUT_MS = 300;
/** Time that the worker waits for the list of existing keys at its start. */
const PRELOAD_TIMEOUT_MS = 200;
const PRELOAD_RETRY_MS = 1_000;
/** Time for running queries when the connections are replaced. */
const RECONNECT_S = 1;

/**
 * Builds a worker that follows its primary process: `receive` handles the messages, `start` warms it up and opens its port.
 * Nothing here depends on how the two processes are connected.
 */
export function runWorker(
  context: ProcessContext,
  { pooled, warmUpMs, log }: Omit<Start, 'config' | 'number'>,
  send: (message: ToPrimary) => void,
) {
  const { config, events } = context;
  const parts = buildWorker(context, { pooled }, send);
  const { postgres, replicas, redis, apiKeys, limiter, logApplier, freshness, pipeline } = parts;

  context.onAddressChange('DATABASE_URL', () => postgres.reconnect(RECONNECT_S));
  const reconnectReplicas = () => {
    for (const replica of replicas) replica.reconnect(RECONNECT_S);
  };
  context.onAddressChange('DATABASE_REPLICA_URLS', reconnectReplicas);
  onClockStep((_, sleptMs) => {
    if (sleptMs > 0) freshness.slept(sleptMs);
  });
  logApplier.start(log);

  const preloadKeys = () => apiKeys.preload().catch(() => void setTimer(preloadKeys, PRELOAD_RETRY_MS));
  const start = async () => {
    const [isRedisUp = true] = await Promise.all([
      redis?.connected(Math.max(MIN_REDIS_TIMEOUT_MS, config.REDIS_TIMEOUT_MS)),
      ...[postgres, ...replicas].map((server) => server.connected(POSTGRES_TIMEOUT_MS)),
      Promise.race([preloadKeys(), pause(PRELOAD_TIMEOUT_MS)]),
    ]);
    // without its Redis, an instance must not load the more from PostgreSQL
    if (warmUpMs > 0 && config.L1_MAX_BYTES > 0 && isRedisUp) events.warmedUp(await parts.warmUp(warmUpMs));
    // the worker may have received a stop meanwhile
    if (pipeline.closing) return;
    await parts.server.listen(config.HOST, config.PORT);
    events.listening(config.PORT);
    send({ type: 'listening' });
    parts.pageIndex.prepare();
  };
  const receive = (message: ToWorker) => {
    switch (message.type) {
      case 'news':
        logApplier.apply(message.news);
        break;
      case 'learned':
        logApplier.learn(message.rows, message.floor);
        break;
      case 'reachable':
        postgres.reachable();
        break;
      case 'restarted':
        logApplier.serverRestarted(message.server);
        break;
      case 'history':
        logApplier.begin(message);
        // a connection to the previous server may be open
        postgres.reconnect(RECONNECT_S);
        reconnectReplicas();
        preloadKeys();
        break;
      case 'grant':
        limiter.receive(message.grants);
        break;
    }
  };
  return { parts, start, receive };
}
