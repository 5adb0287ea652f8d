import type { Found, View } from '../hotels/entry.ts';
import { Entry } from '../hotels/entry.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { monotonicMs, wallAt } from '../lib/clock.ts';
import { ABSENT, CacheArena, MISS } from './arena/arena.ts';
import { type BatchLookup, OK, type Visible } from './arena/batch-lookup.ts';

/**
 * Mean age at which an entry is refreshed in the background by its next request; random between half and one and a half
 * times that, to spread the load. The change feed keeps entries current; this bounds the effect of a lost change.
 */
const REFRESH_MS = 900_000;
/**
 * Maximum age of an entry, or of an API key, while the change feed is down. A silence is detected after 1.5 s, and until
 * then Redis may have supplied outdated values. Together with the lag of a change this is less than 5 s.
 */
export const FEED_DOWN_FRESH_MS = 3_300;
/** Maximum age of an entry while the change feed is up. */
const MAX_AGE_MS = 3_600_000;
/** Resolution of the clock: an entry that was stored in the same microsecond may be older than a call. */
const RESOLUTION_MS = 0.001;
/** Maximum number of entries dropped one by one; beyond it, dropping everything is faster. */
const MAX_DROPPED = 50_000;

/**
 * While the local cache is full, one of this number of entries from Redis is stored. Most entries of a large data set are evicted
 * before their second use, and to store an entry and evict another takes longer than to read it from a reply of Redis.
 * Hit ratio for Zipf reads (exponent 0.8) with room for 33 % of the hotels: 63.2 %, against 68.0 % with all stored.
 */
const SAMPLED_ONE_OF = 32;

interface LocalCacheOptions {
  /** returns false while changes may be missed; `nowMs` is monotonic */
  isFeedUp: (nowMs: number) => boolean;
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
  /** entries stored before this time are used only while PostgreSQL is unavailable */
  #validFromMs = -Infinity;
  /** entries stored before this time are not used */
  #usableFromMs = -Infinity;
  /** entries still to be stored without sampling, because all became stale */
  #unsampled = 0;
  /** entries not stored since the last that was sampled */
  #passed = 0;

  constructor(maxBytes: number, options: LocalCacheOptions) {
    this.arena = new CacheArena(maxBytes);
    this.#options = options;
    this.#counts = options.counts;
  }

  /** Returns a ref into the arena, or ABSENT, or MISS. */
  find(namespace: Namespace, key: string, nowMs = monotonicMs()): number {
    const ref = this.arena.find(namespace, key, nowMs, this.#oldestMs(nowMs), wallAt(nowMs));
    if (ref > 0) {
      this.#counts.hit++;
      if (this.arena.refreshAtMs(ref) <= nowMs) this.#refresh(namespace, [key]);
    } else if (ref === ABSENT) this.#counts.absent++;
    else this.#counts.miss++;
    return ref;
  }

  /**
   * Looks up the ids in a batch request body. Returns undefined if the body is wrong, or if it or the response is too
   * large for the arena. Without `mayMiss` it also returns undefined, uncounted, if keys are missed. With `visible`, hotels
   * outside and absent ones are misses.
   */
  gatherBody(
    namespace: 'channel' | 'registry',
    body: Uint8Array,
    view: View,
    mayMiss: boolean,
    visible?: Visible,
  ): BatchLookup | undefined {
    const nowMs = monotonicMs();
    const batchLookup = this.arena.gather(
      namespace,
      body,
      view,
      nowMs,
      this.#oldestMs(nowMs),
      wallAt(nowMs),
      visible !== undefined,
    );
    if (visible && batchLookup.status === OK) batchLookup.retain(visible, namespace, view);
    if (!mayMiss && batchLookup.misses > 0) return undefined;
    return this.#checked(namespace, batchLookup, nowMs);
  }

  /** Looks up parsed keys; returns undefined if the response is too large for the arena. */
  gatherKeys(namespace: Namespace, keys: readonly string[], view: View): BatchLookup | undefined {
    const nowMs = monotonicMs();
    const batchLookup = this.arena.gatherKeys(
      namespace,
      keys,
      view,
      nowMs,
      this.#oldestMs(nowMs),
      wallAt(nowMs),
    );
    return this.#checked(namespace, batchLookup, nowMs);
  }

  /** Number of entries from Redis of which one is stored. */
  get storedOneOf(): number {
    return this.#unsampled > 0 || this.arena.hasRoom ? 1 : SAMPLED_ONE_OF;
  }

  /**
   * Stores an entry that Redis returned for a key, if something is held under the key, at any age. Of other entries it
   * stores one of `storedOneOf`.
   */
  offer(namespace: Namespace, key: string, entry: Entry): void {
    const oneOf = this.storedOneOf;
    if (oneOf > 1 && this.arena.find(namespace, key, -Infinity) === MISS) {
      if (++this.#passed < oneOf) return;
      this.#passed = 0;
    }
    this.storeBytes(entry.bytes, true);
  }

  /** Stores an entry from PostgreSQL; its age counts from `readAtMs`, the beginning of the query. */
  store(entry: Entry, readAtMs?: number): void {
    this.storeBytes(entry.bytes, false, readAtMs);
  }

  /** Stores the bytes of an entry that was checked; `isFromRedis` states its origin. */
  storeBytes(bytes: Uint8Array, isFromRedis: boolean, readAtMs = monotonicMs()): void {
    if (this.#unsampled > 0) this.#unsampled--;
    this.arena.put(bytes, readAtMs, readAtMs + REFRESH_MS * (0.5 + Math.random()), isFromRedis);
  }

  storeAbsent(namespace: Namespace, key: string, isFromRedis: boolean, readAtMs = monotonicMs()): void {
    this.arena.putAbsent(
      namespace,
      key,
      readAtMs,
      readAtMs + this.#options.absentTtlMs * (0.5 + 0.5 * Math.random()),
      isFromRedis,
    );
  }

  /**
   * Returns the current entries of keys that `find` missed; undefined if there are none. An entry is found if only its
   * certification flipped, which is updated here, or if it has been stored meanwhile.
   */
  currentOf(namespace: Namespace, keys: readonly string[]): (Entry | undefined)[] | undefined {
    const nowMs = monotonicMs();
    const oldestMs = this.#oldestMs(nowMs);
    let found: (Entry | undefined)[] | undefined;
    for (const [i, key] of keys.entries()) {
      // at time -Infinity no certification has flipped
      const ref = this.arena.find(namespace, key, -Infinity, oldestMs);
      const entry = ref > 0 ? this.#updated(ref, nowMs) : undefined;
      if (!entry) continue;
      found ??= new Array<Entry | undefined>(keys.length).fill(undefined);
      found[i] = entry;
    }
    return found;
  }

  /** Returns the entry of a key, of any age, as it reads today, for use while PostgreSQL is unavailable. Undefined: none. */
  lastKnown(namespace: Namespace, key: string): Found | undefined {
    // at time -Infinity no entry has expired
    const ref = this.arena.find(namespace, key, -Infinity, this.#usableFromMs);
    if (ref === MISS) return undefined;
    return ref === ABSENT ? null : new Entry(this.arena.read(ref)).at(wallAt(monotonicMs()));
  }

  /** Drops the hotel or the absence of this key. */
  drop(namespace: Namespace, key: string): void {
    this.arena.drop(namespace, key);
  }

  clear(): void {
    this.arena.clear();
    this.#validFromMs = -Infinity;
    this.#unsampled = 0;
  }

  /** Makes all stored entries unknown to every call except `lastKnown`. */
  markAllStale(): void {
    this.#validFromMs = monotonicMs() + RESOLUTION_MS;
    this.#unsampled = this.arena.stats().entries;
  }

  /** Makes the entries that were marked stale at this time, or before, unknown to `lastKnown` too. */
  dropStale(markedAtMs: number): void {
    this.#usableFromMs = Math.max(this.#usableFromMs, markedAtMs + RESOLUTION_MS);
  }

  /** Drops entries that came from Redis since then, and possibly more. */
  dropFromRedisSince(sinceMs: number): void {
    this.arena.dropFromRedisSince(sinceMs, MAX_DROPPED);
  }

  #oldestMs(nowMs: number): number {
    return Math.max(
      this.#validFromMs,
      nowMs - (this.#options.isFeedUp(nowMs) ? MAX_AGE_MS : FEED_DOWN_FRESH_MS),
    );
  }

  #checked(namespace: Namespace, batchLookup: BatchLookup, nowMs: number): BatchLookup | undefined {
    if (batchLookup.status !== OK) return undefined;
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
    if (refreshed) this.arena.put(entry.bytes, storedAtMs, softUntilMs, this.arena.isFromRedis(ref));
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
    setTimeout(forget, 1_000).unref();
    // deferred, because the caller's views are only valid until the arena's next call
    setImmediate(() => this.#options.refresh(namespace, stale));
  }
}
