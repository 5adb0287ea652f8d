import type { CollectionMembers } from '../collections/collection-members.ts';
import type { Collections } from '../collections/collections.ts';
import { isTimeout } from '../errors.ts';
import type { Entry, Found } from '../hotels/entry.ts';
import type { HotelSizes } from '../hotels/hotel-sizes.ts';
import { mayExist, type Namespace } from '../hotels/namespace.ts';
import { HotelLoader, type HotelLoaderOptions, type Load } from './hotel-loader.ts';
import { LoadBatcher, type LookupResult } from './load-batcher.ts';
import type { LocalCache } from './local-cache.ts';
import type { RedisBatchReader } from './redis-batch/redis-batch.ts';

/**
 * Maximum number of keys that are looked up with those of other requests: beyond, finding the common ones costs more than
 * reading them twice.
 */
export const MAX_JOINED = 100;
/** Number of hotels in a lookup from which a timeout is put down to their size. */
const MIN_TOO_MUCH = 8;
/** Load of no keys. */
const NO_LOAD = Promise.resolve();

interface HotelReaderOptions extends HotelLoaderOptions {
  /** returns false while changes may be unknown */
  isCurrent: () => boolean;
  local: LocalCache;
  /** undefined without Redis */
  redisBatch: RedisBatchReader | undefined;
  collections: Collections;
  sizes: HotelSizes;
  /** returns whether cached hotels of any age may be served after this error of a load */
  mayServeAnyAge: (error: unknown) => boolean;
}

/**
 * Reads hotels through Redis and falls back to PostgreSQL. Up to MAX_JOINED keys of a request are looked up with those of the same
 * event-loop iteration, in Redis (twice with pointers) and then in PostgreSQL by one query; more of them alone and at once.
 * Loads in flight are shared.
 */
export class HotelReader {
  readonly loader: HotelLoader;
  readonly #options: HotelReaderOptions;
  readonly #batcher: LoadBatcher;

  constructor(options: HotelReaderOptions) {
    this.#options = options;
    this.loader = new HotelLoader(options);
    const read = this.#read.bind(this);
    this.#batcher = new LoadBatcher(read, options.sizes, () => options.repository.contended);
  }

  /**
   * Returns the hotels of these keys in a collection (null: all hotels), in the order of the keys. `owner` is an API key, or
   * '' for the service itself. With `readsRedis` the keys are looked up alone, however few: false if Redis has just been read and
   * has none of them. Throws `Unavailable`.
   */
  async load(
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
    collection: string | null = null,
    readsRedis?: boolean,
  ): Promise<Found[]> {
    const { collections } = this.#options;
    const lookUp = async (within: string | null, members?: CollectionMembers): Promise<Found[]> => {
      const may = (key: string) => mayExist(namespace, key) && members?.has(namespace, key) !== false;
      const possible = keys.filter(may);
      if (possible.length === 0) return keys.map(() => null);
      const isJoined = readsRedis === undefined && possible.length <= MAX_JOINED;
      const { found, loaded } = await (isJoined
        ? this.#batcher.join(namespace, possible, owner, within)
        : this.#read(namespace, possible, owner, within, readsRedis));
      const isMissing = (key: string) => !found.has(key);
      if (possible.some(isMissing))
        await loaded.catch((error) => {
          if (possible.some(isMissing)) throw error;
        });
      return keys.map((key) => found.get(key) ?? null);
    };
    const members = collection === null ? undefined : collections.members(collection);
    if (members) {
      const found = await lookUp(null, members);
      // else they have changed meanwhile
      if (collections.members(collection!) === members)
        return found.map((entry) => this.#within(collection!, members, entry));
    }
    return lookUp(collection);
  }

  /** Returns true if a new lookup of this API key would wait in the queue of large hotels. */
  mustWait(owner: string): boolean {
    return this.#batcher.mustWait(owner);
  }

  /** Returns the hotel if it is a member. If not, the members are found by an id that has gone to another hotel. */
  #within(collection: string, members: CollectionMembers, entry: Found): Found {
    if (!entry || members.has('id', entry.id)) return entry;
    this.#options.collections.changed(collection, [entry.id]);
    return null;
  }

  async #read(
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
    collection: string | null,
    readsRedis = true,
  ): Promise<LookupResult> {
    if (collection !== null) return this.#readWithin(collection, namespace, keys, owner);
    const { local, isCurrent, mayServeAnyAge } = this.#options;
    const found: LookupResult['found'] = new Map();
    for (const key of keys) {
      const entry = local.entryOf(namespace, key);
      if (entry) found.set(key, entry);
    }
    const mayReadRedis = readsRedis && isCurrent();
    const unknown = () => keys.filter((key) => !found.has(key));
    if (mayReadRedis) await this.#readRedis(namespace, unknown(), found);
    const missed = unknown();
    if (missed.length === 0) return { found, loaded: NO_LOAD };
    const loaded = this.loader.load(namespace, missed, owner).then(
      (loads) => {
        for (const [i, key] of missed.entries()) found.set(key, this.#take(namespace, key, loads[i]!));
      },
      async (error) => {
        if (!mayServeAnyAge(error)) throw error;
        // entries of any age, which are not stored
        for (const key of missed) {
          const known = local.lastKnown(namespace, key);
          if (known !== undefined) found.set(key, known);
        }
        if (readsRedis && !mayReadRedis) await this.#readRedis(namespace, unknown(), found);
        if (unknown().length > 0) throw error;
      },
    );
    return this.#handled(keys, { found, loaded }, owner);
  }

  /** Reads hotels and members from PostgreSQL by one query: they are those of one moment. */
  #readWithin(
    collection: string,
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
  ): LookupResult {
    this.#options.collections.queries++;
    const found: LookupResult['found'] = new Map();
    const loaded = this.loader.query(namespace, keys, owner, collection).then((load) => {
      for (const key of keys) found.set(key, load.byKey.get(key) ?? null);
      for (const entry of load.byKey.values()) this.#store(entry, load);
    });
    return this.#handled(keys, { found, loaded }, owner);
  }

  async #readRedis(
    namespace: Namespace,
    keys: readonly string[],
    found: LookupResult['found'],
  ): Promise<void> {
    if (keys.length > 0) await this.#options.redisBatch?.read(namespace, keys, found);
  }

  /** Returns what a load found for a key, and stores it in the local cache unless a newer change is known. */
  #take(namespace: Namespace, key: string, load: Load): Found {
    const entry = load.byKey.get(key) ?? null;
    const { local, window } = this.#options;
    if (entry) this.#store(entry, load);
    else if (load.isOfHistory() && window.covers(namespace, key, load.label))
      local.storeAbsent(namespace, key, load.beganMs);
    return entry;
  }

  #store(entry: Entry, { beganMs, isOfHistory }: Load): void {
    const { local, window } = this.#options;
    if (isOfHistory() && window.covers('id', entry.id, entry.label)) local.store(entry, beganMs);
  }

  #handled(keys: readonly string[], result: LookupResult, owner: string): LookupResult {
    // each caller that awaits it receives the rejection; this handler covers the case of no caller
    result.loaded.catch((error) => {
      if (isTimeout(error) && keys.length >= MIN_TOO_MUCH) this.#options.sizes.wasTooMuch(owner);
    });
    return result;
  }
}
