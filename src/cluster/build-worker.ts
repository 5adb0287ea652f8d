import { pagesOf } from '../api-docs/pages.ts';
import { ApiKeyCache } from '../auth/api-key-cache.ts';
import { HotIds } from '../cache/hot-ids.ts';
import type { CountLookups } from '../cache/hotel-loader.ts';
import { HotelReader } from '../cache/hotel-reader.ts';
import { LocalCache } from '../cache/local-cache.ts';
import { RecentChanges } from '../cache/recent-changes.ts';
import { RedisBatchReader } from '../cache/redis-batch/redis-batch.ts';
import { WarmUp } from '../cache/warm-up.ts';
import { FeedApplier } from '../change-feed/feed-applier.ts';
import { FeedStatus } from '../change-feed/feed-status.ts';
import { MarkerWatch } from '../change-feed/marker-watch.ts';
import { ChangeLog } from '../changes/change-log.ts';
import { ChangesReader } from '../changes/changes-reader.ts';
import { PositionWatch } from '../changes/position-watch.ts';
import { Collections } from '../collections/collections.ts';
import { CollectionRepository } from '../collections/repository.ts';
import { isOutage } from '../errors.ts';
import { HotelList } from '../hotels/hotel-list.ts';
import { HotelRepository } from '../hotels/repository.ts';
import { changesOperation } from '../http/changes-handler.ts';
import { CompressedPages } from '../http/compressed-pages.ts';
import { ConnectionTurnover } from '../http/connection-turnover.ts';
import { operationsOn } from '../http/hotel-handlers.ts';
import { RequestPipeline } from '../http/request-pipeline.ts';
import { openServer } from '../http/server.ts';
import { compareClocks, monotonicMs } from '../lib/clock.ts';
import { AccessLog } from '../observability/access-log.ts';
import { FeedSilence, MAX_FEED_SILENCE_MS } from '../postgres/feed-silence.ts';
import { RateLimiter } from '../rate-limit/limiter.ts';
import { type LeaseRequest, UNKNOWN_KEYS_ID } from '../rate-limit/rate-limit.ts';
import { Redis } from '../redis/client.ts';
import { divideDescriptors } from './descriptors.ts';
import type { Start } from './messages.ts';
import { openPostgres } from './open-postgres.ts';
import { openRedis } from './open-redis.ts';
import type { ProcessContext } from './process-context.ts';

const FORGET_EVERY_MS = 10_000;
/**
 * Maximum time between the recovery of PostgreSQL and that of the change feed. Until then cached values are used as
 * before: reloading everything older than 3.3 s at once would overload PostgreSQL.
 */
const FEED_FOLLOWS_MS = 1_000;
/** Interval of the queries that show whether PostgreSQL is available, while the feed is silent. */
const CHECK_EVERY_MS = 500;
/** Delay of such a check after which this process counts as stopped meanwhile. */
const STALL_MS = 1_500;
/**
 * Rate limit of lookups of unknown keys, over all workers: at most 48 in any second, because a second overlaps six
 * windows.
 */
const UNKNOWN_KEYS = { requests: 8, windowMs: 200 };
/** Share of the local cache's bytes for ids of the list, the same for its compressed pages, both in addition; the minimum. */
const LIST_SHARE = 1 / 32;
const MIN_LIST_BYTES = 1024 ** 2;

/** Builds a worker; its port is not open yet. Returns the parts that execute the primary's messages. */
export function buildWorker(
  context: ProcessContext,
  { documents, number }: Pick<Start, 'documents' | 'number'>,
  requestLeases: (requests: LeaseRequest[]) => void,
) {
  const { config, shutdown, metrics } = context;
  const feedSilence = new FeedSilence();
  const feedStatus = new FeedStatus(feedSilence);
  const hotelChanges = new RecentChanges();
  const keyChanges = new RecentChanges();
  const forgetting = setInterval(() => {
    hotelChanges.forgetOld();
    keyChanges.forgetOld();
  }, FORGET_EVERY_MS);
  shutdown.push('recent changes', () => clearInterval(forgetting));

  const { postgres, replicas } = openPostgres(context, () => feedStatus.announced, feedSilence);
  const redisCache = openRedis(context, config.REDIS_TIMEOUT_MS, (seconds, succeeded) =>
    metrics.called('redis', seconds, succeeded),
  );
  const origin = new HotelRepository(replicas ?? postgres);
  let checkedAtMs = monotonicMs();
  /** Returns the silence of the feed, a stop of this process and a sleep of the machine included. */
  const feedSilenceMs = () => {
    compareClocks();
    const nowMs = monotonicMs();
    if (nowMs - checkedAtMs > STALL_MS) feedSilence.stopped(checkedAtMs, nowMs);
    checkedAtMs = nowMs;
    feedApplier.dropStale();
    return feedSilence.ms;
  };
  const isSilenceShort = () => feedSilenceMs() <= MAX_FEED_SILENCE_MS;
  const checking = setInterval(() => {
    feedSilenceMs();
    if (!feedStatus.up) void postgres.check();
  }, CHECK_EVERY_MS);
  shutdown.push('checks of PostgreSQL', () => clearInterval(checking));
  // while PostgreSQL is unavailable no other tier can answer
  const mayUseOld = (error: unknown) => isOutage(error) && isSilenceShort();
  const isTrusted = (nowMs = monotonicMs()) =>
    feedStatus.isUp(nowMs) || (postgres.wasOpenWithin(FEED_FOLLOWS_MS) && isSilenceShort());
  const local =
    config.L1_MAX_BYTES === 0
      ? undefined
      : new LocalCache(config.L1_MAX_BYTES, {
          isFeedUp: isTrusted,
          absentTtlMs: config.ABSENT_TTL_S * 1000,
          refresh: (namespace, keys) => void reader.load(namespace, keys, '').catch(() => {}),
          counts: metrics.cacheLookups.counts.local,
        });
  const countLookups: CountLookups = (tier, result, keys) => {
    metrics.cacheLookups.counts[tier][result] += keys;
  };
  const collections = new Collections({
    repository: new CollectionRepository(replicas ?? postgres),
    maxBytes: config.COLLECTIONS_MAX_BYTES,
    outsideMs: config.ABSENT_TTL_S * 1000,
    isFresh: (nowMs) => feedStatus.isFresh(nowMs),
  });
  const reader: HotelReader = new HotelReader({
    ...{ local, origin, collections, mayUseOld },
    redisCache: redisCache?.hotels,
    recent: hotelChanges,
    isFeedUp: () => feedStatus.up,
    count: countLookups,
  });
  const redisBatch =
    redisCache &&
    new RedisBatchReader(
      redisCache.redis,
      redisCache.hotels,
      local,
      hotelChanges,
      () => feedStatus.up,
      countLookups,
    );
  const hotIds = local && redisCache && new HotIds(redisCache.hotels, local.arena);
  const warmUp =
    local &&
    new WarmUp({
      ...{ local, reader, repository: origin.list, hotIds, redisBatch, number, workers: config.WORKERS },
      isFeedUp: () => feedStatus.up,
      slowMs: config.DATABASE_TIMEOUT_MS / 2,
      isStopping: () => pipeline.closing,
    });
  const listBytes = Math.max(MIN_LIST_BYTES, config.L1_MAX_BYTES * LIST_SHARE);
  const hotelList = new HotelList(origin.list, isTrusted, listBytes);
  const compressedPages = local && new CompressedPages(listBytes);
  const limiter = new RateLimiter(config.WORKERS, requestLeases, config.RATE_LIMIT_SCOPE === 'redis');
  const apiKeys = new ApiKeyCache({
    redisCache: redisCache?.keys,
    postgres,
    recent: keyChanges,
    isFeedUp: () => feedStatus.up,
    mayUseOld,
    unknownTtlMs: config.ABSENT_TTL_S * 1000,
    counts: metrics.keyLookups.counts,
    mayLookUp: () => {
      const decision = limiter.take(UNKNOWN_KEYS_ID, UNKNOWN_KEYS);
      return decision instanceof Promise ? decision.then(({ admitted }) => admitted) : decision.admitted;
    },
  });
  const logPositions = new PositionWatch(() => feedStatus.up);
  const changesReader = new ChangesReader(new ChangeLog(postgres), logPositions);
  // a cluster's nodes are found by its topology, and a master without its majority stops
  const markerWatch =
    redisCache?.redis instanceof Redis
      ? new MarkerWatch(redisCache.redis, (sinceMs) => feedApplier.suspectRedis(sinceMs))
      : undefined;
  const feedApplier: FeedApplier = new FeedApplier({
    markerWatch,
    logPositions,
    hotelChanges,
    keyChanges,
    reader,
    local,
    redisBatch,
    pageIndex: hotelList.index,
    collections,
    apiKeys,
    redisHotels: redisCache?.hotels,
    redisKeys: redisCache?.keys,
    feedStatus,
    feedSilence,
    metrics,
  });
  const accessLog = new AccessLog(context.log, {
    sample: config.ACCESS_LOG_SAMPLE,
    slowMs: config.ACCESS_LOG_SLOW_MS,
    onSuppressed: (kind) => metrics.linesSuppressed.inc({ kind }),
  });
  shutdown.push('access log', () => accessLog.close());
  const pipeline: RequestPipeline = new RequestPipeline(
    apiKeys,
    limiter,
    metrics,
    accessLog,
    config.COMPRESSION === 'on',
  );
  const address = config.PUBLIC_URL + config.BASE_PATH;
  const operations = {
    ...operationsOn(local, redisBatch, reader, hotelList, collections, address, compressedPages),
    changes: changesOperation(changesReader, address, apiKeys, (positions) =>
      metrics.changesBehind.observe(positions),
    ),
  };
  const maxConnections = divideDescriptors(config).connections;
  const server = openServer(operations, pipeline, pagesOf(documents), config.BASE_PATH, {
    maxConnections,
    onRejected: () => metrics.connectionsRejected.inc(),
  });
  shutdown.push('connections', () => server.close());
  const turnover = new ConnectionTurnover(config.CONNECTION_MAX_AGE_S, server, pipeline, () =>
    metrics.connectionsAged.inc(),
  );
  pipeline.isDue = () => turnover.isDue();
  shutdown.push('connection turnover', () => turnover.close());
  return {
    postgres,
    replicas,
    redis: redisCache?.redis,
    local,
    hotIds,
    warmUp,
    hotelList,
    collections,
    apiKeys,
    limiter,
    feedStatus,
    feedApplier,
    feedSilence,
    feedSilenceMs,
    logPositions,
    markerWatch,
    pipeline,
    server,
    maxConnections,
  };
}
