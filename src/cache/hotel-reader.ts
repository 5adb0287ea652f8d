import type { CollectionMembers } from '../collections/collection-members.ts';
import type { Collections } from '../collections/collections.ts';
import { encodeInTurns, entryAt } from '../hotels/encode.ts';
import type { Entry, Found } from '../hotels/entry.ts';
import type { HotelSizes } from '../hotels/hotel-sizes.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { wallMs } from '../lib/clock.ts';
import type { EventLoop } from '../lib/event-loop.ts';
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
  eventLoop: EventLoop;
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
    const { local, isCurrent } = this.#options;
    const mayReadRedis = isCurrent();
    const found: (Found | undefined)[] = keys.map((key) => local.entryOf(namespace, key));
    await this.#update(found, owner);
    if (mayReadRedis) await this.#fillFromRedis(found, namespace, keys, owner);
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
        await fill(found, keys, (unknown) => this.#lastKnown(namespace, unknown, owner, mayReadRedis));
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

  /** Returns hotels of any age from the caches, for use while PostgreSQL is unavailable. They are not stored. */
  async #lastKnown(
    namespace: Namespace,
    keys: string[],
    owner: string,
    hasReadRedis: boolean,
  ): Promise<(Found | undefined)[]> {
    const known = keys.map((key) => this.#options.local.lastKnown(namespace, key));
    await this.#update(known, owner);
    if (!hasReadRedis) await this.#fillFromRedis(known, namespace, keys, owner);
    return known;
  }

  async #fillFromRedis(
    found: (Found | undefined)[],
    namespace: Namespace,
    keys: string[],
    owner: string,
  ): Promise<void> {
    const { redisBatch, redisCache } = this.#options;
    if (!redisBatch || !redisCache) return;
    await fill(found, keys, async (unknownKeys) => {
      const prefix = redisCache.prefixOf('id');
      const read = await redisBatch.read(namespace, unknownKeys);
      const updated = await this.#update(read, owner);
      // otherwise each reader would encode them again; under another history their labels would be wrong
      if (updated.length > 0 && redisCache.prefixOf('id') === prefix) void redisCache.fill(updated);
      return read;
    });
  }

  /** Encodes the hotels again whose certification has flipped. Returns these. What is not the body of a hotel becomes undefined. */
  async #update(found: (Found | undefined)[], owner: string): Promise<Entry[]> {
    const { local, eventLoop } = this.#options;
    const nowMs = wallMs();
    const flipped = [...found.keys()].filter((i) => found[i] && !found[i].isValidAt(nowMs));
    const updated: Entry[] = [];
    await encodeInTurns(flipped, owner, eventLoop, (i) => {
      const held = found[i]!;
      const entry = entryAt(held, nowMs);
      found[i] = entry;
      if (!entry) return held.bytes.length;
      local.replace(held, entry);
      updated.push(entry);
      return entry.bytes.length;
    });
    return updated;
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
