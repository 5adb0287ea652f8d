import type { Collections } from '../collections/collections.ts';
import type { Entry, Found } from '../hotels/entry.ts';
import { LETTER, type Namespace } from '../hotels/namespace.ts';
import { HotelLoader, type HotelLoaderOptions } from './hotel-loader.ts';
import { type BatchRead, LoadBatcher } from './load-batcher.ts';
import type { LocalCache } from './local-cache.ts';
import { RedisHotelReader } from './redis-hotel-reader.ts';

/** Load of no keys. */
const NOTHING = Promise.resolve();

interface HotelReaderOptions extends HotelLoaderOptions {
  local: LocalCache | undefined;
  collections: Collections;
  /**
   * returns whether cached hotels of any age may be used after this error of a load. If PostgreSQL answers other queries, or
   * did while the feed was silent, they may have changed
   */
  mayUseOld: (error: unknown) => boolean;
}

/**
 * Reads hotels through Redis and falls back to PostgreSQL. The keys requested in one event-loop iteration go to Redis as
 * one MGET (two with pointers) and to PostgreSQL as one query. Loads in flight are shared.
 */
export class HotelReader {
  readonly loader: HotelLoader;
  readonly #options: HotelReaderOptions;
  readonly #redis: RedisHotelReader | undefined;
  readonly #batcher: LoadBatcher;

  constructor(options: HotelReaderOptions) {
    this.#options = options;
    this.#redis = options.redisCache && new RedisHotelReader(options.redisCache, options);
    this.loader = new HotelLoader(options);
    this.#batcher = new LoadBatcher(
      (namespace, keys, owner, collection) =>
        collection === null
          ? this.#read(namespace, keys, owner)
          : this.#readWithin(collection, namespace, keys, owner),
      () => options.origin.contended,
    );
  }

  /**
   * Returns the hotels of these keys in a collection (null: all hotels), in the order of the keys. `owner` is an API key, or
   * '' for the service itself. Throws `Unavailable`.
   */
  load(
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
    collection: string | null = null,
  ): Promise<Found[]> {
    return this.#batcher.load(namespace, keys, owner, collection);
  }

  async #read(namespace: Namespace, keys: string[], owner: string): Promise<BatchRead> {
    if (keys.length === 0) return { found: [], loaded: NOTHING };
    const began = this.#options.recent.position;
    const feedUp = this.#options.isFeedUp();
    const held = this.#options.local?.currentOf(namespace, keys);
    const found: (Found | undefined)[] =
      this.#redis && feedUp && !held?.every(Boolean)
        ? await this.#redis.read(namespace, keys, held)
        : (held ?? new Array(keys.length).fill(undefined));
    const missing: number[] = [];
    for (let i = 0; i < keys.length; i++) if (found[i] === undefined) missing.push(i);
    this.#storeLocally(namespace, keys, found, began, undefined, held);
    if (missing.length === 0) return { found, loaded: NOTHING };
    const missed = missing.map((i) => keys[i]!);
    const fillIn = (entries: (Found | undefined)[]) =>
      missing.forEach((i, at) => {
        found[i] = entries[at];
      });
    const loaded = this.loader.load(namespace, missed, owner).then(
      ({ hotels, beganMs }) => {
        fillIn(hotels);
        this.#storeLocally(namespace, missed, hotels, began, beganMs);
      },
      async (error) => {
        if (!this.#options.mayUseOld(error)) throw error;
        const known = await this.#lastKnown(namespace, missed, feedUp);
        fillIn(known);
        if (known.includes(undefined)) throw error;
      },
    );
    // each caller that awaits it receives the rejection; this handler covers the case of no caller
    loaded.catch(() => {});
    return { found, loaded };
  }

  /**
   * Reads hotels of a collection. A hidden hotel takes the same steps as an absent one, also if a cache holds it: the time
   * of a lookup reveals nothing about it.
   */
  async #readWithin(
    collection: string,
    namespace: Namespace,
    keys: string[],
    owner: string,
  ): Promise<BatchRead> {
    const { recent, collections, isFeedUp } = this.#options;
    const began = recent.position;
    const members = collections.members(collection);
    if (!members)
      return { found: await this.#readUnheld(collection, namespace, keys, owner), loaded: NOTHING };
    const { change } = members;
    const found: (Found | undefined)[] = keys.map((key) =>
      members.isOutside(namespace, key) ? null : undefined,
    );
    const fill = (asked: number[], entries: (Found | undefined)[], queriedAtMs?: number) => {
      const mayStore = this.#mayKeep(queriedAtMs);
      for (const [at, i] of asked.entries()) {
        const entry = entries[at];
        found[i] = entry;
        if (entry && mayStore) this.#store(namespace, keys[i]!, entry, began, queriedAtMs);
      }
    };
    const unknown = () => [...keys.keys()].filter((i) => found[i] === undefined);
    let asked = unknown();
    if (this.#redis && isFeedUp() && asked.length > 0) {
      const askedKeys = asked.map((i) => keys[i]!);
      fill(asked, await this.#redis.read(namespace, askedKeys, undefined, members));
      asked = unknown();
    }
    if (asked.length === 0) return { found, loaded: NOTHING };
    const missed = asked.map((i) => keys[i]!);
    const loaded = this.loader
      .loadWithin(collection, namespace, missed, owner)
      .then(({ hotels, beganMs }) => {
        fill(asked, hotels, beganMs);
        if (members.change !== change) return;
        collections.noteOutside(
          members,
          namespace,
          missed.filter((key, i) => !hotels[i] && recent.mayStore(LETTER[namespace] + key, began)),
        );
      });
    // each caller that awaits it receives the rejection; this handler covers the case of no caller
    loaded.catch(() => {});
    return { found, loaded };
  }

  /** Reads hotels of a collection whose members are unknown: PostgreSQL returns the ids of those among the hotels. */
  async #readUnheld(
    collection: string,
    namespace: Namespace,
    keys: string[],
    owner: string,
  ): Promise<Found[]> {
    this.#options.collections.counts.queries++;
    const ids = await this.#options.origin.idsWithin(collection, namespace, keys, owner);
    const hotels = await this.load('id', [...ids.values()], owner);
    const byId = new Map(hotels.map((hotel) => [hotel?.id, hotel]));
    return keys.map((key) => {
      const hotel = byId.get(ids.get(key) ?? '');
      return hotel?.isOf(namespace, key) ? hotel : null;
    });
  }

  /** Returns entries of any age from the caches, for use while PostgreSQL is unavailable. They are not stored. */
  async #lastKnown(
    namespace: Namespace,
    keys: string[],
    askedRedis: boolean,
  ): Promise<(Found | undefined)[]> {
    const known = keys.map((key) => this.#options.local?.lastKnown(namespace, key));
    const rest = keys.filter((_, i) => known[i] === undefined);
    if (rest.length === 0 || !this.#redis || askedRedis) return known;
    const fromRedis = await this.#redis.read(namespace, rest, undefined);
    return known.map((entry) => (entry === undefined ? fromRedis.shift() : entry));
  }

  /**
   * Stores entries that were not found in the local cache; those of `held` keep their age there. `queriedAtMs`: beginning of
   * the query in PostgreSQL; undefined: they come from Redis.
   */
  #storeLocally(
    namespace: Namespace,
    keys: string[],
    found: (Found | undefined)[],
    began: number,
    queriedAtMs: number | undefined,
    held?: (Found | undefined)[],
  ): void {
    const { local, recent } = this.#options;
    if (!local || !this.#mayKeep(queriedAtMs)) return;
    for (let i = 0; i < keys.length; i++) {
      const entry = found[i];
      if (held?.[i]) continue;
      if (entry) this.#store(namespace, keys[i]!, entry, began, queriedAtMs);
      else if (entry === null && recent.mayStore(LETTER[namespace] + keys[i], began))
        local.storeAbsent(namespace, keys[i]!, queriedAtMs === undefined, queriedAtMs);
    }
  }

  /** Returns false for a reply of Redis without the feed: after a stop of this process it is older than it seems. */
  #mayKeep(queriedAtMs: number | undefined): boolean {
    return queriedAtMs !== undefined || this.#options.isFeedUp();
  }

  /** Stores the entry found for a key. `queriedAtMs`: beginning of the query; undefined: it comes from Redis. */
  #store(
    namespace: Namespace,
    key: string,
    entry: Entry,
    began: number,
    queriedAtMs: number | undefined,
  ): void {
    const { local, recent } = this.#options;
    // entries from Redis were compared with the changes before; without another change there is no need to read the id
    const isCompared = queriedAtMs === undefined && recent.position === began;
    if (!isCompared) {
      const name = LETTER.id + entry.id;
      // a shared load may have begun before a change received since
      if (!recent.mayStore(name, began) || recent.isOutdated(name, entry.version)) return;
    }
    if (queriedAtMs === undefined) local?.offer(namespace, key, entry);
    else local?.store(entry, queriedAtMs);
  }
}
