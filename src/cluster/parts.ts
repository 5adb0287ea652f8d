import type { Documents } from '../api-docs/documents.ts';
import { pagesOf } from '../api-docs/pages.ts';
import { Keyring } from '../auth/api-key-cache.ts';
import type { CountAnswers } from '../cache/count-lookups.ts';
import { Reader } from '../cache/hotel-reader.ts';
import { LocalCache } from '../cache/local-cache.ts';
import { RecentChanges } from '../cache/recent-changes.ts';
import { Relay } from '../cache/redis-batch/redis-batch.ts';
import { Follower } from '../change-feed/feed-applier.ts';
import { Link } from '../change-feed/feed-status.ts';
import { Collections } from '../collections/collections.ts';
import { CollectionRepository } from '../collections/repository.ts';
import { Listing } from '../hotels/hotel-list.ts';
import { Origin } from '../hotels/repository.ts';
import { operationsOn } from '../http/hotel-handlers.ts';
import { Gate } from '../http/request-pipeline.ts';
import { openServer, type Server } from '../http/server.ts';
import { AccessLog } from '../observability/access-log.ts';
import { Limiter } from '../rate-limit/limiter.ts';
import type { Ask } from '../rate-limit/rate-limit.ts';
import { Redis } from '../redis/client.ts';
import type { Base } from './base.ts';
import { divideDescriptors } from './descriptors.ts';
import { type OpenPostgres, openPostgres } from './open-postgres.ts';
import { type OpenRedis, openRedis } from './open-redis.ts';

const FORGET_EVERY_MS = 10_000;
/**
 * When PostgreSQL is back the change feed follows within so long. Until then what is held is answered as before: to ask at
 * once for all that is older than 5 s, while Redis cannot be believed either, was more than PostgreSQL was given.
 */
const FEED_FOLLOWS_MS = 1_000;
/**
 * Look-ups of keys of which nobody has heard, of all workers together: at most 48 in any second, for a second
 * meets six windows.
 */
const GUESSES = { requests: 8, windowMs: 200 };
/** No key has such an id. */
const GUESSES_ID = 'guesses of keys';

/** What the orders of the primary are carried out with. */
export interface Parts extends OpenPostgres {
  redis: OpenRedis['redis'] | undefined;
  local: LocalCache | undefined;
  listing: Listing;
  keyring: Keyring;
  limiter: Limiter;
  link: Link;
  follower: Follower;
  gate: Gate;
  server: Server;
  maxConnections: number;
}

/**
 * Builds a worker from its parts; nothing listens yet. `documents` it shows to anybody; `ask` wants requests of limits
 * admitted by the primary.
 */
export function buildWorker(base: Base, documents: Documents, ask: (asks: Ask[]) => void): Parts {
  const { config, lifecycle, metrics } = base;
  const link = new Link();
  const hotelChanges = new RecentChanges();
  const keyChanges = new RecentChanges();
  const forgetting = setInterval(() => {
    hotelChanges.forgetOld();
    keyChanges.forgetOld();
  }, FORGET_EVERY_MS);
  lifecycle.push('recent changes', () => clearInterval(forgetting));

  const { postgres, replicas } = openPostgres(base, () => link.told);
  const shared = openRedis(base, config.REDIS_TIMEOUT_MS, (seconds, succeeded) =>
    metrics.called('redis', seconds, succeeded),
  );
  const origin = new Origin(replicas ?? postgres);
  const local =
    config.L1_MAX_BYTES === 0
      ? undefined
      : new LocalCache(config.L1_MAX_BYTES, {
          // while PostgreSQL is known to be away nobody could say more
          isLinked: (nowMs) => link.isUp(nowMs) || postgres.awayWithin(FEED_FOLLOWS_MS),
          absentTtlMs: config.ABSENT_TTL_S * 1000,
          refresh: (namespace, keys) => void reader.load(namespace, keys, '').catch(() => {}),
          counts: metrics.cacheAnswers.counts.local,
        });
  const countAnswers: CountAnswers = (tier, answer, keys) => {
    metrics.cacheAnswers.counts[tier][answer] += keys;
  };
  const reader: Reader = new Reader(local, shared?.hotels, origin, hotelChanges, () => link.up, countAnswers);
  const relay =
    // with a cluster the reader does it: a reply of several nodes is not one
    shared?.redis instanceof Redis && !local
      ? new Relay(shared.redis, shared.hotels, () => link.up, countAnswers)
      : undefined;
  const listing = new Listing(origin, () => link.up);
  const collections = new Collections(new CollectionRepository(replicas ?? postgres));
  const limiter = new Limiter(config.WORKERS, ask);
  const keyring = new Keyring({
    shared: shared?.keys,
    postgres,
    recent: keyChanges,
    isLinked: () => link.up,
    unknownTtlMs: config.ABSENT_TTL_S * 1000,
    counts: metrics.keyLookups.counts,
    mayGuess: () => {
      const verdict = limiter.take(GUESSES_ID, GUESSES);
      return verdict instanceof Promise ? verdict.then(({ admitted }) => admitted) : verdict.admitted;
    },
  });
  const follower = new Follower({
    hotelChanges,
    keyChanges,
    reader,
    local,
    relay,
    positions: listing.positions,
    keyring,
    sharedHotels: shared?.hotels,
    sharedKeys: shared?.keys,
    link,
    metrics,
  });
  const accessLog = new AccessLog(base.log, {
    sample: config.ACCESS_LOG_SAMPLE,
    slowMs: config.ACCESS_LOG_SLOW_MS,
    onSuppressed: (kind) => metrics.lineSuppressed(kind),
  });
  lifecycle.push('access log', () => accessLog.close());
  const gate = new Gate(keyring, limiter, metrics, accessLog, config.COMPRESSION === 'on');
  const operations = operationsOn(local, relay, reader, listing, collections, config.BASE_PATH);
  const maxConnections = divideDescriptors(config).connections;
  const server = openServer(operations, gate, pagesOf(documents), config.BASE_PATH, {
    maxConnections,
    onRefused: () => metrics.connectionRefused(),
  });
  lifecycle.push('connections', () => server.close());
  const redis = shared?.redis;
  return {
    ...{ postgres, replicas, redis, local, listing, keyring, limiter, link, follower, gate },
    ...{ server, maxConnections },
  };
}
