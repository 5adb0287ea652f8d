import type { Entry, Found } from '../hotels/entry.ts';
import { LETTER, type Namespace } from '../hotels/namespace.ts';
import type { HotelRepository } from '../hotels/repository.ts';
import { monotonicMs } from '../lib/clock.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import { FEED_DOWN_FRESH_MS } from './local-cache.ts';
import type { RecentChanges } from './recent-changes.ts';
import type { RedisHotelCache } from './redis-hotel-cache.ts';

interface Loaded {
  byKey: Map<string, Entry>;
  beganMs: number;
}

/** Result of all queries for some keys. */
interface LoadedHotels {
  /** in the order of the keys */
  hotels: Found[];
  /** beginning of the first query */
  beganMs: number;
}

/** Callback that counts looked-up keys by tier and result. */
export type CountLookups = (
  tier: 'redis' | 'postgres',
  result: 'hit' | 'absent' | 'miss',
  keys: number,
) => void;

export interface HotelLoaderOptions {
  origin: HotelRepository;
  /** filled with the results of loads, but only while `isFeedUp`; undefined without Redis */
  redisCache: RedisHotelCache | undefined;
  recent: RecentChanges;
  /** returns false while Redis may be outdated */
  isFeedUp: () => boolean;
  count: CountLookups;
}

/** Loads hotels from PostgreSQL, each key once at a time, and fills Redis with the results. */
export class HotelLoader {
  readonly #options: HotelLoaderOptions;
  /** by letter of the namespace and key */
  readonly #inFlight = new SingleFlight<Loaded>();

  constructor(options: HotelLoaderOptions) {
    this.#options = options;
  }

  /** Keeps later callers from sharing a load of `key` that began before a change. */
  forget(namespace: Namespace, key: string): void {
    this.#inFlight.forget(LETTER[namespace] + key);
  }

  /** Keeps later callers from sharing any load in flight. */
  forgetAll(): void {
    this.#inFlight.clear();
  }

  /** Loads the hotels of these keys. Throws `Unavailable`. */
  async load(namespace: Namespace, keys: string[], owner: string): Promise<LoadedHotels> {
    const loaded = await this.#join(namespace, keys, owner);
    const { hotels: found, beganMs } = loaded;
    // a change names the keys that a hotel has since, not those that it lost: a load under a lost key may be outdated
    const outdated = keys.filter((_, i) => this.#isOutdated(found[i]!));
    if (outdated.length === 0) return loaded;
    const again = await this.#join(namespace, outdated, owner);
    const byKey = new Map(outdated.map((key, i) => [key, again.hotels[i]!]));
    const hotels = keys.map((key, i) => (byKey.has(key) ? byKey.get(key)! : found[i]!));
    return { hotels, beganMs };
  }

  /** Loads the hotels of these keys that are in the collection. No load is shared. Throws `Unavailable`. */
  async loadWithin(
    collection: string,
    namespace: Namespace,
    keys: string[],
    owner: string,
  ): Promise<LoadedHotels> {
    const { byKey, beganMs } = await this.#start(namespace, keys, owner, collection);
    return { hotels: keys.map((key) => byKey.get(key) ?? null), beganMs };
  }

  #isOutdated(entry: Found): boolean {
    return entry !== null && this.#options.recent.isOutdated(LETTER.id + entry.id, entry.version);
  }

  /** Joins the loads in flight, begins one for the other keys, and waits for all of them. */
  async #join(namespace: Namespace, keys: string[], owner: string): Promise<LoadedHotels> {
    const joinedAtMs = monotonicMs();
    const joined = new Set<Promise<Loaded>>();
    const own: string[] = [];
    for (const key of keys) {
      const flight = this.#inFlight.get(LETTER[namespace] + key);
      if (flight) joined.add(flight);
      else own.push(key);
    }
    if (own.length > 0) {
      const names = own.map((key) => LETTER[namespace] + key);
      joined.add(this.#inFlight.share(names, this.#start(namespace, own, owner, null)));
    }
    const loads = await Promise.all(joined);
    // as old as a cached hotel that is not used any more: this process was stopped, or the query took as long
    if (!this.#options.isFeedUp() && loads.some(({ beganMs }) => beganMs < joinedAtMs - FEED_DOWN_FRESH_MS))
      return this.#join(namespace, keys, owner);
    const hotels = keys.map((key) => {
      let found: Found = null;
      for (const { byKey } of loads) found = byKey.get(key) ?? found;
      return found;
    });
    return { hotels, beganMs: Math.min(...loads.map((load) => load.beganMs)) };
  }

  /**
   * Loads keys from PostgreSQL. Filling Redis with hits and absences goes on in the background. What is not in a collection
   * is no absence.
   */
  async #start(
    namespace: Namespace,
    keys: string[],
    owner: string,
    collection: string | null,
  ): Promise<Loaded> {
    const { origin, recent, count } = this.#options;
    const began = recent.position;
    const beganMs = monotonicMs();
    const entries = await origin.load(namespace, keys, owner, collection);
    const byKey = new Map<string, Entry>();
    for (const entry of entries) {
      const key =
        namespace === 'id' ? entry.id : namespace === 'channel' ? entry.channelId : entry.registryId;
      byKey.set(key!, entry);
    }
    count('postgres', 'hit', entries.length);
    count('postgres', 'absent', keys.length - entries.length);
    // after the responses are sent: filling takes as long as all the rest
    setImmediate(() => this.#fillRedis(namespace, collection === null ? keys : [], byKey, began));
    return { byKey, beganMs };
  }

  #fillRedis(namespace: Namespace, keys: string[], loaded: Map<string, Entry>, began: number): void {
    const { redisCache, recent, isFeedUp } = this.#options;
    if (!redisCache || !isFeedUp()) return;
    const storable = [...loaded.values()].filter((entry) => recent.mayStore(LETTER.id + entry.id, began));
    const absent = keys.filter((key) => !loaded.has(key) && recent.mayStore(LETTER[namespace] + key, began));
    if (storable.length > 0) redisCache.fill(storable);
    if (absent.length > 0) redisCache.rememberAbsent(namespace, absent);
  }
}
