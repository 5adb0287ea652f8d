import type { Found, View } from '../hotels/entry.ts';
import { Entry } from '../hotels/entry.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { monotonicMs, onIteration, random, setTimer, wallAt, wallMs } from '../lib/clock.ts';
import type { Freshness } from '../log/freshness.ts';
import { ABSENT, CacheArena, MISS } from './arena/arena.ts';
import { type BatchLookup, OK } from './arena/batch-lookup.ts';
import type { CacheMemory, Ids } from './memory.ts';

/**
 * Mean age at which an entry is refreshed in the background by its next request; random between half and one and a half
 * times that, to spread the load. Rows may be written with triggers disabled; this bounds for how long they are not served.
 */
export const REFRESH_MS = 900_000;

/**
 * While the local cache is full, one of this number of entries from Redis is stored. Most entries of a large data set
 * are evicted before their second use, and to store an entry and evict another takes longer than to read it from a reply
 * of Redis. Hit ratio for Zipf reads (exponent 0.8) with room for 33 % of the hotels: 63.2 %, against 68.0 % with all
 * stored.
 */
const SAMPLED_ONE_OF = 32;

interface LocalCacheOptions {
  freshness: Pick<Freshness, 'oldestReadMs'>;
  absentTtlMs: number;
  /** reloads keys and stores them here, in the background */
  refresh: (namespace: Namespace, keys: string[]) => void;
  /** counts of looked-up keys by result, incremented here */
  counts: { hit: number; absent: number; miss: number };
}

/** First tier: an arena and the rules of freshness. All calls are synchronous. Views are valid until the next call. */
export class LocalCache {
  readonly arena: CacheArena;
  readonly #options: LocalCacheOptions;
  readonly #counts: LocalCacheOptions['counts'];
  readonly #refreshing = new Set<string>();
  /** false if its budget is 0: then every lookup is a miss, and none is counted */
  readonly keeps: boolean;

  /** Takes the memory, or the budget of one of its own (`CacheMemory`). */
  constructor(memory: CacheMemory | number, options: LocalCacheOptions) {
    this.arena = new CacheArena(memory);
    this.keeps = this.arena.stats().maxBytes > 0;
    this.#options = options;
    this.#counts = options.counts;
  }

  /** Maximum time for which an absence is kept. */
  get absentTtlMs(): number {
    return this.#options.absentTtlMs;
  }

  /** Returns a ref into the arena, or ABSENT, or MISS. */
  find(namespace: Namespace, key: string, nowMs = monotonicMs()): number {
    if (!this.keeps) return MISS;
    const ref = this.arena.find(
      namespace,
      key,
      nowMs,
      this.#options.freshness.oldestReadMs(nowMs),
      wallAt(nowMs),
    );
    if (ref > 0) {
      this.#counts.hit++;
      if (this.arena.refreshAtMs(ref) <= nowMs) this.#refresh(namespace, [key]);
    } else if (ref === ABSENT) this.#counts.absent++;
    else this.#counts.miss++;
    return ref;
  }

  /**
   * Looks up the ids in a batch request body. Without `mayMiss` it returns undefined, uncounted, if keys are missed or the body
   * is wrong. With `visible`, other ids are left out before the lookup. All are misses if `visible` is null, because they are
   * not known, or if a visible id has gone to a hotel outside.
   */
  gatherBody(
    namespace: Namespace,
    body: Uint8Array,
    view: View,
    mayMiss: boolean,
    visible?: Ids | null,
  ): BatchLookup | undefined {
    const nowMs = monotonicMs();
    const oldestMs = visible === null ? Infinity : this.#options.freshness.oldestReadMs(nowMs);
    const wallMs = wallAt(nowMs);
    let lookup = this.arena.gather(namespace, body, view, nowMs, oldestMs, wallMs, visible ?? undefined);
    if (visible && !lookup.areAmong(visible))
      lookup = this.arena.gather(namespace, body, view, nowMs, Infinity, wallMs);
    if (!mayMiss && (lookup.misses > 0 || lookup.status !== OK)) return undefined;
    return this.#counted(namespace, lookup, nowMs);
  }

  /**
   * Looks up parsed keys. Returns undefined if nothing is kept here, and, without `mayMiss`, uncounted, if keys are missed.
   */
  gatherKeys(
    namespace: Namespace,
    keys: readonly string[],
    view: View,
    mayMiss: boolean,
  ): BatchLookup | undefined {
    if (!this.keeps) return undefined;
    const nowMs = monotonicMs();
    const batchLookup = this.arena.gatherKeys(
      namespace,
      keys,
      view,
      nowMs,
      this.#options.freshness.oldestReadMs(nowMs),
      wallAt(nowMs),
    );
    if (!mayMiss && batchLookup.misses > 0) return undefined;
    return this.#counted(namespace, batchLookup, nowMs);
  }

  /** Number of entries from Redis of which one is stored. */
  get storedOneOf(): number {
    return this.arena.hasRoom ? 1 : SAMPLED_ONE_OF;
  }

  /** Stores an entry; its age counts from `readAtMs`, the beginning of the query. */
  store(entry: Entry, readAtMs = monotonicMs()): void {
    this.arena.put(entry.bytes, readAtMs, readAtMs + REFRESH_MS * (0.5 + random()));
  }

  storeAbsent(namespace: Namespace, key: string, readAtMs = monotonicMs()): void {
    const untilMs = readAtMs + this.#options.absentTtlMs * (0.5 + 0.5 * random());
    this.arena.putAbsent(namespace, key, readAtMs, untilMs);
  }

  /**
   * Returns the current entries of keys that `find` missed, undefined for others. An entry is found if only its
   * certification flipped, which is updated here, or if it has been stored meanwhile.
   */
  currentOf(namespace: Namespace, keys: readonly string[]): (Entry | undefined)[] {
    const nowMs = monotonicMs();
    const oldestMs = this.#options.freshness.oldestReadMs(nowMs);
    return keys.map((key) => {
      // at time -Infinity no certification has flipped
      const ref = this.keeps ? this.arena.find(namespace, key, -Infinity, oldestMs) : MISS;
      return ref > 0 ? this.#updated(ref, nowMs) : undefined;
    });
  }

  /** Returns the entry of a key, of any age, as it reads today, for use while PostgreSQL is unavailable. Undefined: none. */
  lastKnown(namespace: Namespace, key: string): Found | undefined {
    // at time -Infinity no entry has expired
    const ref = this.arena.find(namespace, key, -Infinity, -Infinity);
    if (ref === MISS) return undefined;
    return ref === ABSENT ? null : new Entry(this.arena.read(ref)).at(wallMs());
  }

  /** Drops the hotel or the absence of this key. */
  drop(namespace: Namespace, key: string): void {
    this.arena.drop(namespace, key);
  }

  clear(): void {
    this.arena.clear();
  }

  /** Drops the hotels and absences whose reads began at this time or later. */
  dropSince(sinceMs: number): void {
    this.arena.dropSince(sinceMs);
  }

  #counted(namespace: Namespace, batchLookup: BatchLookup, nowMs: number): BatchLookup {
    if (!this.keeps) return batchLookup;
    this.#counts.hit += batchLookup.hits;
    this.#counts.absent += batchLookup.absences;
    this.#counts.miss += batchLookup.misses;
    if (batchLookup.soonestSoftMs <= nowMs) this.#refresh(namespace, batchLookup.softKeys(nowMs));
    return batchLookup;
  }

  /** Returns the entry as it reads now; undefined if it is due for a refresh. */
  #updated(ref: number, nowMs: number): Entry | undefined {
    const [storedAtMs, softUntilMs] = [this.arena.storedAt(ref), this.arena.refreshAtMs(ref)];
    const wallMs = wallAt(nowMs);
    const refreshed = this.arena.validUntilMs(ref) <= wallMs;
    // the caller may be the refresh of this entry
    if (!refreshed && softUntilMs <= nowMs) return undefined;
    const entry = new Entry(this.arena.read(ref)).at(wallMs);
    if (refreshed) this.arena.put(entry.bytes, storedAtMs, softUntilMs);
    return entry;
  }

  #refresh(namespace: Namespace, keys: string[]): void {
    const names = keys.map((key) => `${namespace} ${key}`);
    const stale = keys.filter((_, i) => !this.#refreshing.has(names[i]!));
    if (stale.length === 0) return;
    for (const name of names) this.#refreshing.add(name);
    // the entries stay until they are replaced; the next refresh is at least a second later
    const forget = () => {
      for (const name of names) this.#refreshing.delete(name);
    };
    setTimer(forget, 1_000).unref();
    // deferred, because the caller's views are only valid until the arena's next call
    onIteration(() => this.#options.refresh(namespace, stale));
  }
}
