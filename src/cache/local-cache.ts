import type { Found, View } from '../hotels/entry.ts';
import { Entry } from '../hotels/entry.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { monotonicMs, wallAt } from '../lib/clock.ts';
import { ABSENT, CacheArena, MISS } from './arena/arena.ts';
import { type BatchLookup, OK } from './arena/batch-lookup.ts';

/**
 * Past this age an entry is read again in the background when it is next asked for; at random up to half of it less or
 * more, so that what was stored in one instant is read again at an even rate. The change feed keeps entries true; this
 * bounds what a lost change would do. It costs a look-up an entry:
 * at 60 s, with 100,000 entries in use, a GET cost 10 to 20 µs instead of 8 for seconds on end.
 */
const REFRESH_MS = 900_000;
/** While the change feed is silent nothing older than this is answered without asking. */
const FEED_DOWN_FRESH_MS = 5_000;
/** Whatever the feed says, nothing older than this is answered without asking. */
const MAX_AGE_MS = 3_600_000;
/** Past so many entries that are dropped at once everything is: it takes less time. */
const MAX_DROPPED = 50_000;

/** What the local cache asks of its surroundings. */
export interface LocalCacheOptions {
  /** false while changes may be made that are not heard of; `nowMs`: monotonic */
  isFeedUp: (nowMs: number) => boolean;
  absentTtlMs: number;
  /** reads keys again and stores them here; nobody waits for it */
  refresh: (namespace: Namespace, keys: string[]) => void;
  /** keys looked up, by what was said of them: raised here */
  counts: { hit: number; absent: number; miss: number };
}

/**
 * The first tier: an arena, and when what it holds may be answered. All of it is synchronous. Views that it returns
 * hold until its next call.
 */
export class LocalCache {
  readonly #arena: CacheArena;
  readonly #options: LocalCacheOptions;
  readonly #counts: LocalCacheOptions['counts'];
  readonly #refreshing = new Set<string>();
  /** what was stored before is only answered where nobody can be asked */
  #validFromMs = -Infinity;

  constructor(maxBytes: number, options: LocalCacheOptions) {
    this.#arena = new CacheArena(maxBytes);
    this.#options = options;
    this.#counts = options.counts;
  }

  get arena(): CacheArena {
    return this.#arena;
  }

  /** A ref into the arena, or ABSENT, or MISS. */
  find(namespace: Namespace, key: string, nowMs = monotonicMs()): number {
    const ref = this.#arena.find(namespace, key, nowMs, this.#oldestMs(nowMs), wallAt(nowMs));
    if (ref > 0) {
      this.#counts.hit++;
      if (this.#arena.refreshAtMs(ref) <= nowMs) this.#refresh(namespace, [key]);
    } else if (ref === ABSENT) this.#counts.absent++;
    else this.#counts.miss++;
    return ref;
  }

  /**
   * Answers the body of a batch request; undefined: something is wrong with it, or it or its answer is too large for
   * the arena. Unless `mayMiss` also where something is missed: it will be asked again,
   * and is counted then.
   */
  gatherBody(
    namespace: 'channel' | 'registry',
    body: Uint8Array,
    view: View,
    mayMiss: boolean,
  ): BatchLookup | undefined {
    const nowMs = monotonicMs();
    const batchLookup = this.#arena.gather(
      namespace,
      body,
      view,
      nowMs,
      this.#oldestMs(nowMs),
      wallAt(nowMs),
    );
    if (!mayMiss && batchLookup.misses > 0) return undefined;
    return this.#checked(namespace, batchLookup, nowMs);
  }

  /** The same for parsed keys; undefined: the answer is too large for the arena. */
  gatherKeys(namespace: Namespace, keys: readonly string[], view: View): BatchLookup | undefined {
    const nowMs = monotonicMs();
    const batchLookup = this.#arena.gatherKeys(
      namespace,
      keys,
      view,
      nowMs,
      this.#oldestMs(nowMs),
      wallAt(nowMs),
    );
    return this.#checked(namespace, batchLookup, nowMs);
  }

  /** `isShared`: it comes from Redis. */
  store(entry: Entry, isFromRedis: boolean): void {
    const nowMs = monotonicMs();
    this.#arena.put(entry.bytes, nowMs, nowMs + REFRESH_MS * (0.5 + Math.random()), isFromRedis);
  }

  storeAbsent(namespace: Namespace, key: string, isFromRedis: boolean): void {
    const nowMs = monotonicMs();
    this.#arena.putAbsent(
      namespace,
      key,
      nowMs,
      nowMs + this.#options.absentTtlMs * (0.5 + 0.5 * Math.random()),
      isFromRedis,
    );
  }

  /**
   * The hotel of this key where it is held and nobody has to be asked: because only a midnight has made it untrue,
   * then it is turned to today, here too, or because somebody has stored it since it was missed.
   */
  held(namespace: Namespace, key: string): Entry | undefined {
    const nowMs = monotonicMs();
    // before all time nothing has turned
    const ref = this.#arena.find(namespace, key, -Infinity, this.#oldestMs(nowMs));
    if (ref <= 0) return undefined;
    const [storedAtMs, softUntilMs] = [this.#arena.storedAt(ref), this.#arena.refreshAtMs(ref)];
    const wallMs = wallAt(nowMs);
    const refreshed = this.#arena.validUntilMs(ref) <= wallMs;
    // this may be its refresh
    if (!refreshed && softUntilMs <= nowMs) return undefined;
    const entry = new Entry(this.#arena.read(ref)).at(wallMs);
    if (refreshed) this.#arena.put(entry.bytes, storedAtMs, softUntilMs, this.#arena.isFromRedis(ref));
    return entry;
  }

  /** What is held for a key however old it is, as it reads today: for when nobody can be asked. Undefined: nothing. */
  lastKnown(namespace: Namespace, key: string): Found | undefined {
    // before all time nothing has expired
    const ref = this.#arena.find(namespace, key, -Infinity);
    if (ref === MISS) return undefined;
    return ref === ABSENT ? null : new Entry(this.#arena.read(ref)).at(wallAt(monotonicMs()));
  }

  /** Forgets the hotel or the absence that this key leads to. */
  drop(namespace: Namespace, key: string): void {
    this.#arena.drop(namespace, key);
  }

  clear(): void {
    this.#arena.clear();
    this.#validFromMs = -Infinity;
  }

  /** Anything may have changed: what is held counts as unknown, but for `lastKnown`. */
  markAllStale(): void {
    // what is stored within this microsecond may have been stored before
    this.#validFromMs = monotonicMs() + 0.001;
  }

  /** Forgets what came from Redis since then, and perhaps more. */
  dropFromRedisSince(sinceMs: number): void {
    this.#arena.dropFromRedisSince(sinceMs, MAX_DROPPED);
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

  #refresh(namespace: Namespace, keys: string[]): void {
    const names = keys.map((key) => `${namespace} ${key}`);
    const stale = keys.filter((_, i) => !this.#refreshing.has(names[i]!));
    if (stale.length === 0) return;
    for (const name of names) this.#refreshing.add(name);
    // the entries stay as they are until the new ones are there; the next look is a second away
    const forget = () => {
      for (const name of names) this.#refreshing.delete(name);
    };
    setTimeout(forget, 1_000).unref();
    // in another turn: what was found in this one holds only until the arena's next call
    setImmediate(() => this.#options.refresh(namespace, stale));
  }
}
