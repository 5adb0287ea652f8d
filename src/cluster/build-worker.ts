import { pagesOf } from '../api-docs/pages.ts';
import { ApiKeyCache } from '../auth/api-key-cache.ts';
import { RedisKeyCache } from '../auth/redis-key-cache.ts';
import { UsageCounter } from '../auth/usage.ts';
import type { CountLookups } from '../cache/hotel-loader.ts';
import { HotelReader } from '../cache/hotel-reader.ts';
import { LocalCache } from '../cache/local-cache.ts';
import { CacheMemory } from '../cache/memory.ts';
import { RedisBatchReader } from '../cache/redis-batch/redis-batch.ts';
import { RedisHotelCache } from '../cache/redis-hotel-cache.ts';
import { warmUp } from '../cache/warm-up.ts';
import { ChangesReader } from '../changes/changes-reader.ts';
import { PageReader } from '../changes/page-reader.ts';
import { PositionWatch } from '../changes/position-watch.ts';
import { Collections } from '../collections/collections.ts';
import { CollectionRepository } from '../collections/repository.ts';
import { isOutage } from '../errors.ts';
import { HotelSizes } from '../hotels/hotel-sizes.ts';
import { PageIndex } from '../hotels/page-index.ts';
import { HotelRepository } from '../hotels/repository.ts';
import { changesOperation } from '../http/changes-handler.ts';
import { CompressedPages } from '../http/compression.ts';
import { ConnectionTurnover } from '../http/connection-turnover.ts';
import { keyOperation } from '../http/key-handler.ts';
import { Misses } from '../http/misses.ts';
import { hotelOperations } from '../http/operations.ts';
import { RequestPipeline } from '../http/request-pipeline.ts';
import { openServer } from '../http/server.ts';
import { pause, setTimer } from '../lib/clock.ts';
import { EventLoop } from '../lib/event-loop.ts';
import { Freshness } from '../log/freshness.ts';
import { Window } from '../log/window.ts';
import { AccessLog } from '../observability/access-log.ts';
import { RateLimiter } from '../rate-limit/limiter.ts';
import { waitUntilReady } from '../redis/client.ts';
import { LogApplier, type WorkerApplied } from './apply-log.ts';
import { divideDescriptors } from './descriptors.ts';
import { openPostgres, openRedis, type ProcessContext } from './process-context.ts';
import type { Start, ToPrimary } from './workers.ts';

/** Interval of the queries that show whether PostgreSQL is available, while the worker is not current. */
const CHECK_EVERY_MS = 500;
const TURNOVER_EVERY_MS = 1_000;
/** Share of the local cache's bytes for ids of the list, the same for its compressed pages, both in addition; the minimum. */
const LIST_SHARE = 1 / 32;
const MIN_LIST_BYTES = 1024 ** 2;
/** Minimum time that the worker waits for Redis at its start: as long as a command may take, if that is longer. */
const MIN_REDIS_TIMEOUT_MS = 500;
/** Time that it waits for PostgreSQL: cached hotels can be served without it. */
const POSTGRES_TIMEOUT_MS = 300;
/** Time that the worker waits for the list of existing keys at its start. */
const PRELOAD_TIMEOUT_MS = 200;
const PRELOAD_RETRY_MS = 1_000;

/**
 * Builds a worker that follows its primary process. Returns the parts that handle the messages, and `start`, which warms it up and
 * opens its port. Nothing here depends on how the two processes are connected.
 */
export function buildWorker(
  context: ProcessContext,
  { pooled, warmUpMs, log }: Omit<Start, 'config' | 'number'>,
  send: (message: ToPrimary) => void,
) {
  const { config, shutdown, metrics, events } = context;
  const noSecret = new Uint8Array();
  const applied: WorkerApplied = { history: '', server: '', position: 0, prefix: '', secret: noSecret };
  const prefix = () => applied.prefix;
  const freshness = new Freshness(
    () => postgres.breakerOpen,
    (atMs) => send({ type: 'late answer', atMs }),
  );
  const isCurrent = () => freshness.isCurrent();
  freshness.watchClocks();
  const { postgres, servers, origin, reconnect } = openPostgres(context, pooled, {
    applied: () => (applied.history === '' ? undefined : applied),
    mayCompareReplicas: () => freshness.mayServeMembers(),
    onBehind: () => metrics.readsBehind.inc(),
    onAnswer: (atMs) => freshness.answered(atMs),
  });
  context.repeat(() => {
    if (!isCurrent()) postgres.check();
  }, CHECK_EVERY_MS);
  const redis = openRedis(context, (seconds, succeeded) => metrics.called('redis', seconds, succeeded));
  const ofRedis = {
    prefix,
    ttlMs: config.REDIS_TTL_S * 1000,
    onInvalidValue: () => metrics.invalidValues.inc(),
  };
  const redisCache = redis && new RedisHotelCache(redis, ofRedis);
  const memory = new CacheMemory(config.L1_MAX_BYTES);
  const window = new Window(memory.window);
  const eventLoop = new EventLoop();
  const repository = new HotelRepository(origin, prefix, eventLoop);
  // while PostgreSQL is unavailable no other tier can answer
  const mayServeAnyAge = (error: unknown) => isOutage(error) && freshness.mayServeAnyAge();
  const local = new LocalCache(memory, { freshness, counts: metrics.cacheLookups.local });
  const countLookups: CountLookups = (tier, result, keys) => {
    metrics.cacheLookups[tier][result] += keys;
  };
  const collections = new Collections({
    repository: new CollectionRepository(origin),
    maxBytes: config.COLLECTIONS_MAX_BYTES,
    freshness,
  });
  const redisBatch =
    redisCache &&
    new RedisBatchReader({ redis, cache: redisCache, local, memory, isCurrent, count: countLookups });
  const sizes = new HotelSizes();
  const reader = new HotelReader({
    ...{ local, window, isCurrent, collections, sizes, mayServeAnyAge, count: countLookups },
    ...{ repository, redisBatch, redisCache },
  });
  const listBytes = Math.max(MIN_LIST_BYTES, config.L1_MAX_BYTES * LIST_SHARE);
  const pageIndex = new PageIndex(repository.list, listBytes, () => freshness.mayServePositions());
  const compressedPages = local.isEnabled ? new CompressedPages(listBytes) : undefined;
  const limiter = new RateLimiter(config.WORKERS, (requests) => send({ type: 'leases', requests }));
  const apiKeys = new ApiKeyCache({
    ...{ origin, prefix, window, freshness, mayServeAnyAge },
    redisCache: redis && new RedisKeyCache(redis, ofRedis, () => applied.secret),
    counts: metrics.keyLookups,
    workers: config.WORKERS,
  });
  const preloadKeys = () => apiKeys.preload().catch(() => void setTimer(preloadKeys, PRELOAD_RETRY_MS));
  const logPositions = new PositionWatch(freshness);
  const logApplier = new LogApplier({
    ...{ window, freshness, reader, local, pageIndex, collections, apiKeys, logPositions, postgres },
    applied,
    onHistory: () => {
      reconnect();
      preloadKeys();
    },
    // more than a replica and then the primary take: each at most twice its deadline, which is half as long for a replica
    longestReadMs: 4 * config.DATABASE_TIMEOUT_MS,
  });
  const accessLog = new AccessLog(context.log, {
    sample: config.ACCESS_LOG_SAMPLE,
    slowMs: config.ACCESS_LOG_SLOW_MS,
    onSuppressed: (kind) => metrics.linesSuppressed.inc({ kind }),
  });
  const turnover = new ConnectionTurnover(config.CONNECTION_MAX_AGE_S);
  const usage = new UsageCounter();
  const pipeline = new RequestPipeline({
    ...{ apiKeys, limiter, metrics, accessLog, turnover, usage, eventLoop, sizes },
    compresses: config.COMPRESSION === 'on',
  });
  const warming = {
    ...{ local, reader, isCurrent, list: repository.list, workers: config.WORKERS },
    isStopping: () => pipeline.closing,
  };
  const changesReader = new ChangesReader(
    new PageReader(postgres, () => applied.server, logPositions, eventLoop, sizes),
    logPositions,
    eventLoop,
  );
  const { access } = pipeline;
  const misses = new Misses({ reader, redisBatch, collections, sizes, access });
  const publicAddress = config.PUBLIC_URL && config.PUBLIC_URL + config.BASE_PATH;
  const operations = [
    ...hotelOperations(
      { local, misses, redisBatch, pageIndex, collections, access, eventLoop, sizes },
      publicAddress,
      compressedPages,
      pipeline.answerPage,
    ),
    changesOperation(changesReader, collections, publicAddress, apiKeys),
    keyOperation(origin),
  ];
  const maxConnections = divideDescriptors(config).connections;
  const server = openServer(operations, pipeline, pagesOf(config), config.BASE_PATH, {
    maxConnections,
    onRejected: () => metrics.connectionsRejected.inc(),
  });
  shutdown.push('connections', () => server.close());
  context.repeat(() => turnover.measure(server.connections), TURNOVER_EVERY_MS);
  logApplier.start(log);
  const start = async () => {
    const [isRedisUp = true] = await Promise.all([
      redis && waitUntilReady(redis, Math.max(MIN_REDIS_TIMEOUT_MS, config.REDIS_TIMEOUT_MS)),
      ...servers.map((each) => each.connected(POSTGRES_TIMEOUT_MS)),
      Promise.race([preloadKeys(), pause(PRELOAD_TIMEOUT_MS)]),
    ]);
    // an instance without its Redis would load PostgreSQL even more
    if (warmUpMs > 0 && local.isEnabled && isRedisUp) events.warmedUp(await warmUp(warming, warmUpMs));
    // the worker may have received a stop meanwhile
    if (pipeline.closing) return;
    await server.listen(config.HOST, config.PORT);
    events.listening(config.PORT);
    send({ type: 'listening' });
    pageIndex.divide();
  };
  return {
    ...{ start, logApplier, limiter, logPositions, pipeline, usage, server, maxConnections },
    ...{ postgres, origin, collections, freshness },
    local: local.isEnabled ? local : undefined,
  };
}
