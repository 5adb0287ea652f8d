import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import type { RedisKeyCache } from '../auth/redis-key-cache.ts';
import type { HotelReader } from '../cache/hotel-reader.ts';
import type { LocalCache } from '../cache/local-cache.ts';
import type { RecentChanges } from '../cache/recent-changes.ts';
import type { RedisBatchReader } from '../cache/redis-batch/redis-batch.ts';
import type { RedisHotelCache } from '../cache/redis-hotel-cache.ts';
import type { PositionWatch } from '../changes/position-watch.ts';
import type { Collections } from '../collections/collections.ts';
import { LETTER, type Namespace } from '../hotels/namespace.ts';
import type { PageIndex } from '../hotels/page-index.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { Metrics } from '../observability/metrics.ts';
import { type FeedSilence, MAX_FEED_SILENCE_MS } from '../postgres/feed-silence.ts';
import { Confirmation } from './confirmation.ts';
import type { FeedStatus } from './feed-status.ts';
import type { MarkerWatch } from './marker-watch.ts';
import { announcedBy, type FeedMessage } from './messages.ts';

/** Caches of a worker that the change feed invalidates. */
interface WorkerCaches {
  hotelChanges: RecentChanges;
  keyChanges: RecentChanges;
  reader: HotelReader;
  local: LocalCache | undefined;
  redisBatch: RedisBatchReader | undefined;
  pageIndex: PageIndex;
  collections: Collections;
  apiKeys: ApiKeyCache;
  redisHotels: RedisHotelCache | undefined;
  redisKeys: RedisKeyCache | undefined;
  markerWatch: MarkerWatch | undefined;
  feedStatus: FeedStatus;
  feedSilence: FeedSilence;
  logPositions: PositionWatch;
  metrics: Metrics;
}

/** Applies messages of the change feed to the caches of one worker. */
export class FeedApplier {
  readonly #parts: WorkerCaches;
  readonly #confirmation = new Confirmation();
  /**
   * Resets whose stale values may be used in an outage, the oldest first: the time of each, and `feedSilence.availableMs`
   * from which its values are dropped
   */
  readonly #resets: { atMs: number; dropFromMs: number }[] = [];

  constructor(parts: WorkerCaches) {
    this.#parts = parts;
  }

  /** `atMs`: time at which the instance received the message, by `monotonicMs` of this process. */
  apply(message: FeedMessage, atMs: number): void {
    const { apiKeys, reader, local, pageIndex, collections, keyChanges, hotelChanges } = this.#parts;
    this.#parts.feedStatus.received(announcedBy(message), atMs);
    if (message.g !== '') this.useGeneration(message.g);
    const wasSilent = this.#confirmation.receive(message.b !== null);
    if (message.l || wasSilent) this.suspectRedis(this.#confirmation.confirmedMs);
    this.#parts.markerWatch?.announced(message.b);
    for (const [id, version, channelId, registryId] of message.h ?? []) {
      this.#changed('id', id, version);
      collections.hotelChanged(id, channelId, registryId);
      if (message.m) {
        pageIndex.moved(id);
        collections.hotelMoved(id);
      }
      if (channelId !== null) this.#changed('channel', channelId, 0);
      if (registryId !== null) this.#changed('registry', registryId, 0);
    }
    if (message.q !== undefined) this.#parts.logPositions.announced(message.q);
    for (const [sha256, version] of message.k ?? []) {
      keyChanges.note(sha256, version);
      apiKeys.drop(sha256, version);
    }
    for (const [collection, ids] of message.c ?? []) collections.changed(collection, ids);
    if (message.t?.includes('hotels')) {
      hotelChanges.noteAll();
      reader.loader.forgetAll();
      local?.clear();
      collections.forget();
      pageIndex.forget();
    }
    if (message.t?.includes('keys')) {
      keyChanges.noteAll();
      apiKeys.markAllStale();
      apiKeys.dropStale(monotonicMs());
    }
  }

  /**
   * Marks every cached value as stale, because messages may have been missed. While PostgreSQL is unavailable, stale values
   * are used for what is left of the time for which it may have been available without a message.
   */
  reset(): void {
    const { feedSilence, ...parts } = this.#parts;
    parts.feedStatus.lost();
    parts.metrics.feedResets.inc();
    parts.hotelChanges.noteAll();
    parts.keyChanges.noteAll();
    parts.reader.loader.forgetAll();
    parts.local?.markAllStale();
    parts.collections.forget();
    parts.pageIndex.forget();
    parts.apiKeys.markAllStale();
    const usableMs = MAX_FEED_SILENCE_MS - feedSilence.ms;
    this.#resets.push({ atMs: monotonicMs(), dropFromMs: feedSilence.availableMs + usableMs });
    this.dropStale();
  }

  /**
   * Drops values that a reset marked as stale, if PostgreSQL was available for too long since the last message before that
   * reset.
   */
  dropStale(): void {
    const { feedSilence, local, apiKeys } = this.#parts;
    for (let first = this.#resets[0]; first !== undefined; first = this.#resets[0]) {
      if (feedSilence.availableMs < first.dropFromMs) return;
      this.#resets.shift();
      local?.dropStale(first.atMs);
      apiKeys.dropStale(first.atMs);
    }
  }

  /**
   * Handles a step of the wall clock, or a sleep of the machine, after which messages may have been missed. The ages of
   * values do not contain the sleep, so they are marked as stale.
   */
  clockStepped(byMs: number, sleptMs: number): void {
    const { feedStatus, feedSilence, local, apiKeys } = this.#parts;
    if (sleptMs > 0) {
      feedSilence.slept(sleptMs);
      local?.markAllStale();
      apiKeys.markAllStale();
    }
    if (byMs > 0) feedStatus.lost();
    // entries of a midnight that the clock has gone back before
    else local?.markAllStale();
  }

  /** Drops every cached value, because the database follows another history. */
  clear(history: string, generation: string): void {
    const parts = this.#parts;
    parts.feedStatus.lost();
    parts.hotelChanges.clear();
    parts.keyChanges.clear();
    parts.reader.loader.forgetAll();
    parts.local?.clear();
    parts.redisBatch?.forgetChanges();
    parts.collections.forget();
    parts.pageIndex.forget();
    parts.apiKeys.clear();
    parts.logPositions.follow(history);
    parts.markerWatch?.follow(history);
    this.useGeneration(generation);
  }

  /** Drops values read from Redis since a time, by `monotonicMs`, because Redis may lack writes. */
  suspectRedis(sinceMs: number): void {
    const { hotelChanges, keyChanges, local, apiKeys, redisHotels } = this.#parts;
    if (!redisHotels) return;
    hotelChanges.noteAll();
    keyChanges.noteAll();
    local?.dropFromRedisSince(sinceMs);
    apiKeys.markAllStale();
  }

  useGeneration(generation: string): void {
    this.#parts.redisHotels?.useGeneration(generation);
    this.#parts.redisKeys?.useGeneration(generation);
  }

  #changed(namespace: Namespace, key: string, version: number): void {
    this.#parts.hotelChanges.note(LETTER[namespace] + key, version);
    this.#parts.reader.loader.forget(namespace, key);
    this.#parts.local?.drop(namespace, key);
    this.#parts.redisBatch?.changed(namespace, key, version);
  }
}
