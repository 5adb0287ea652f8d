import type { CollectionMembers } from '../collections/collection-members.ts';
import type { Collections } from '../collections/collections.ts';
import type { Entry, Found } from '../hotels/entry.ts';
import type { HotelSizes } from '../hotels/hotel-sizes.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { HotelLoader, type HotelLoaderOptions, type Load } from './hotel-loader.ts';
import { LoadBatcher, type LookupResult } from './load-batcher.ts';
import type { LocalCache } from './local-cache.ts';
import type { RedisBatchReader } from './redis-batch/redis-batch.ts';

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
 * Reads hotels through Redis and falls back to PostgreSQL. The keys requested in one event-loop iteration are looked up
 * together, in Redis (twice with pointers) and then in PostgreSQL by one query. Loads in flight are shared.
 */
export class HotelReader {
  readonly loader: HotelLoader;
  readonly #options: HotelReaderOptions;
  readonly #batcher: LoadBatcher;

  constructor(options: HotelReaderOptions) {
    this.#options = options;
    this.loader = new HotelLoader(options);
    this.#batcher = new LoadBatcher(
      async (namespace, keys, owner, collection) =>
        collection === null
          ? this.#read(namespace, keys, owner)
          : this.#readWithin(collection, namespace, keys, owner),
      options.sizes,
      () => options.repository.contended,
    );
  }

  /**
   * Returns the hotels of these keys in a collection (null: all hotels), in the order of the keys. `owner` is an API key, or
   * '' for the service itself. `joins`: see `LoadBatcher`. Throws `Unavailable`.
   */
  async load(
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
    collection: string | null = null,
    joins?: boolean,
  ): Promise<Found[]> {
    if (collection === null) return this.#batcher.load(namespace, keys, owner, null, joins);
    const { collections } = this.#options;
    const members = collections.members(collection);
    if (members) {
      const inside = keys.filter((key) => members.has(namespace, key));
      const entries =
        inside.length === 0 ? [] : await this.#batcher.load(namespace, inside, owner, null, joins);
      // else they have changed meanwhile
      if (collections.members(collection) === members) {
        const found = new Map(inside.map((key, i) => [key, entries[i]!]));
        return keys.map((key) => this.#within(collection, members, found.get(key) ?? null));
      }
    }
    return this.#batcher.load(namespace, keys, owner, collection, joins);
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

  async #read(namespace: Namespace, keys: string[], owner: string): Promise<LookupResult> {
    if (keys.length === 0) return { found: [], loaded: NO_LOAD };
    const { local, redisBatch, isCurrent } = this.#options;
    const mayReadRedis = isCurrent();
    const found: (Found | undefined)[] = local.currentOf(namespace, keys);
    if (redisBatch && mayReadRedis)
      await fill(found, keys, (unknownKeys) => redisBatch.read(namespace, unknownKeys));
    const missing = placesOf(found);
    if (missing.length === 0) return { found, loaded: NO_LOAD };
    const missed = missing.map((i) => keys[i]!);
    const loaded = this.loader.load(namespace, missed, owner).then(
      (loads) =>
        missing.forEach((i, at) => {
          found[i] = this.#take(namespace, missed[at]!, loads[at]!);
        }),
      async (error) => {
        if (!this.#options.mayServeAnyAge(error)) throw error;
        await fill(found, keys, (unknownKeys) => this.#lastKnown(namespace, unknownKeys, mayReadRedis));
        if (found.includes(undefined)) throw error;
      },
    );
    return handled(found, loaded);
  }

  /** Reads hotels and members from PostgreSQL by one query: they are those of one moment. */
  #readWithin(collection: string, namespace: Namespace, keys: string[], owner: string): LookupResult {
    this.#options.collections.queries++;
    const found: (Found | undefined)[] = new Array(keys.length).fill(undefined);
    const loaded = this.loader.query(namespace, keys, owner, collection).then((load) => {
      for (const [i, key] of keys.entries()) {
        const entry = load.byKey.get(key) ?? null;
        found[i] = entry;
        if (entry) this.#store(entry, load);
      }
    });
    return handled(found, loaded);
  }

  /** Returns entries of any age from the caches, for use while PostgreSQL is unavailable. They are not stored. */
  async #lastKnown(
    namespace: Namespace,
    keys: string[],
    hasReadRedis: boolean,
  ): Promise<(Found | undefined)[]> {
    const { local, redisBatch } = this.#options;
    const known = keys.map((key) => local.lastKnown(namespace, key));
    if (redisBatch && !hasReadRedis)
      await fill(known, keys, (unknownKeys) => redisBatch.read(namespace, unknownKeys));
    return known;
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
}

function handled(found: LookupResult['found'], loaded: Promise<void>): LookupResult {
  // each caller that awaits it receives the rejection; this handler covers the case of no caller
  loaded.catch(() => {});
  return { found, loaded };
}

/** Returns the places of the keys that are not known. */
function placesOf(found: readonly (Found | undefined)[]): number[] {
  return [...found.keys()].filter((i) => found[i] === undefined);
}

/** Reads the keys that are not known. */
async function fill(
  found: (Found | undefined)[],
  keys: readonly string[],
  read: (keys: string[]) => Promise<(Found | undefined)[]>,
): Promise<void> {
  const missing = placesOf(found);
  if (missing.length === 0) return;
  const answers = await read(missing.map((i) => keys[i]!));
  for (const [at, i] of missing.entries()) found[i] = answers[at];
}
