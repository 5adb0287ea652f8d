import { isQueueFull } from '../errors.ts';
import type { Entry, Found } from '../hotels/entry.ts';
import { KEY_PREFIX, type Namespace } from '../hotels/namespace.ts';
import type { HotelRepository, LoadedHotels } from '../hotels/repository.ts';
import { monotonicMs, onIteration } from '../lib/clock.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import { MAX_AGE_NOT_CURRENT_MS } from '../log/freshness.ts';
import type { Window } from '../log/window.ts';
import type { RedisHotelCache } from './redis-hotel-cache.ts';

/** Result of one query, by key. */
export interface Load extends Omit<LoadedHotels, 'entries'> {
  byKey: Map<string, Entry>;
  /** its beginning */
  beganMs: number;
}

/** Callback that counts looked-up keys by tier and result. */
export type CountLookups = (
  tier: 'redis' | 'postgres',
  result: 'hit' | 'absent' | 'miss',
  keys: number,
) => void;

export interface HotelLoaderOptions {
  repository: HotelRepository;
  /** filled with the results of loads; undefined without Redis */
  redisCache: RedisHotelCache | undefined;
  window: Window;
  count: CountLookups;
}

/** Loads hotels from PostgreSQL, each key once at a time, and fills Redis with the results. */
export class HotelLoader {
  readonly #options: HotelLoaderOptions;
  /** by key, behind the prefix of its namespace */
  readonly #inFlight = new SingleFlight<Load>(MAX_AGE_NOT_CURRENT_MS);

  constructor(options: HotelLoaderOptions) {
    this.#options = options;
  }

  /** Keeps later callers from sharing a load of `key` that began before a change. */
  forget(namespace: Namespace, key: string): void {
    this.#inFlight.forget(KEY_PREFIX[namespace] + key);
  }

  /** Keeps later callers from sharing any load in flight. */
  forgetAll(): void {
    this.#inFlight.clear();
  }

  /** Loads the hotels of these keys. Returns for each key the load that looked for it. Throws `Unavailable`. */
  async load(namespace: Namespace, keys: readonly string[], owner: string): Promise<Load[]> {
    const loads = await this.#join(namespace, keys, owner);
    // a change names the keys that a hotel has since, not those that it lost: a load under a lost key may be outdated
    const outdated = keys.filter((key, i) => this.#isOutdated(loads[i]!.byKey.get(key) ?? null));
    if (outdated.length === 0) return loads;
    const again = await this.#join(namespace, outdated, owner);
    const byKey = new Map(outdated.map((key, i) => [key, again[i]!]));
    return keys.map((key, i) => byKey.get(key) ?? loads[i]!);
  }

  #isOutdated(entry: Found): boolean {
    return entry !== null && !this.#options.window.covers('id', entry.id, entry.label);
  }

  /** Joins the loads in flight, begins one for the other keys, and waits for all of them. */
  async #join(namespace: Namespace, keys: readonly string[], owner: string): Promise<Load[]> {
    const joined = keys.map((key) => this.#inFlight.get(KEY_PREFIX[namespace] + key));
    const own = keys.filter((_, i) => !joined[i]);
    const started = own.length > 0 ? this.#share(namespace, own, owner) : undefined;
    const found = await Promise.all(joined.map((load) => load?.catch(unlessFull) ?? started!));
    // by the share of another API key: this one may have room
    const rejected = keys.filter((_, i) => !found[i]);
    const again = rejected.length > 0 ? await this.#share(namespace, rejected, owner) : undefined;
    return found.map((load) => load ?? again!);
  }

  #share(namespace: Namespace, keys: readonly string[], owner: string): Promise<Load> {
    const names = keys.map((key) => KEY_PREFIX[namespace] + key);
    return this.#inFlight.share(names, this.query(namespace, keys, owner, null));
  }

  /**
   * Loads the hotels of these keys that are in the collection (null: of all hotels) by a query of its own. Filling
   * Redis goes on in the background; a reader compares the labels of what it holds. Throws `Unavailable`.
   */
  async query(
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
    collection: string | null,
  ): Promise<Load> {
    const { repository, redisCache, count } = this.#options;
    const beganMs = monotonicMs();
    const { entries, label, isOfHistory } = await repository.load(namespace, keys, owner, collection);
    const byKey = new Map<string, Entry>();
    for (const entry of entries) {
      const key =
        namespace === 'id' ? entry.id : namespace === 'channel' ? entry.channelId : entry.registryId;
      byKey.set(key!, entry);
    }
    count('postgres', 'hit', entries.length);
    count('postgres', 'absent', keys.length - entries.length);
    const load = { label, isOfHistory, byKey, beganMs };
    const fill = () => {
      if (isOfHistory()) void redisCache?.fill(entries);
    };
    // after the responses are sent: filling takes as long as all the rest
    if (entries.length > 0) onIteration(fill);
    return load;
  }
}

function unlessFull(error: unknown): undefined {
  if (!isQueueFull(error)) throw error;
}
