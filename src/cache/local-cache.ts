import type { Found, View } from '../hotels/entry.ts';
import { Entry } from '../hotels/entry.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { monotonicMs, wallAt, wallMs } from '../lib/clock.ts';
import { lifetimeMs } from '../lib/lifetime.ts';
import { type Freshness, MAX_ABSENCE_MS, MAX_AGE_MS } from '../log/freshness.ts';
import { ABSENT, MISS, OK } from '../wasm/constants.ts';
import { CacheArena } from './arena/arena.ts';
import type { BatchLookup } from './arena/batch-lookup.ts';
import type { CacheMemory, Ids } from './memory.ts';

interface LocalCacheOptions {
  freshness: Pick<Freshness, 'oldestReadMs'>;
  /** counts of looked-up keys by result, incremented here */
  counts: { hit: number; absent: number; miss: number };
}

/** First tier: an arena and the rules of freshness. All calls are synchronous. Views are valid until the next call. */
export class LocalCache {
  readonly arena: CacheArena;
  readonly #options: LocalCacheOptions;
  readonly #counts: LocalCacheOptions['counts'];
  /** false if its budget is 0: then every lookup is a miss, and none is counted */
  readonly isEnabled: boolean;

  constructor(memory: CacheMemory, options: LocalCacheOptions) {
    this.arena = new CacheArena(memory);
    this.isEnabled = memory.maxBytes > 0;
    this.#options = options;
    this.#counts = options.counts;
  }

  /** Returns a ref into the arena, or ABSENT, or MISS. */
  find(namespace: Namespace, key: string, nowMs = monotonicMs()): number {
    if (!this.isEnabled) return MISS;
    const ref = this.#refOf(namespace, key, nowMs);
    if (ref > 0) this.#counts.hit++;
    else if (ref === ABSENT) this.#counts.absent++;
    else this.#counts.miss++;
    return ref;
  }

  /**
   * Looks up the ids in a batch request body. Without `mayMiss` it returns undefined, uncounted, if keys are missed or the body
   * is wrong. With `visible`, other ids are left out before the lookup. Every id is a miss if `visible` is null, because the
   * members are not known, or if a visible id has gone to a hotel outside.
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
    const atMs = wallAt(nowMs);
    let lookup = this.arena.gather(namespace, body, view, nowMs, oldestMs, atMs, visible ?? undefined);
    if (visible && !lookup.areAmong(visible))
      lookup = this.arena.gather(namespace, body, view, nowMs, Infinity, atMs);
    if (!mayMiss && (lookup.misses > 0 || lookup.status !== OK)) return undefined;
    return this.#counted(lookup);
  }

  /** Looks up parsed keys. Without `mayMiss` it returns undefined, uncounted, if keys are missed. */
  gatherKeys(
    namespace: Namespace,
    keys: readonly string[],
    view: View,
    mayMiss: boolean,
  ): BatchLookup | undefined {
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
    return this.#counted(batchLookup);
  }

  /** Stores an entry; its age counts from `readAtMs`, the beginning of the query. */
  store(entry: Entry, readAtMs = monotonicMs()): void {
    this.arena.put(entry.bytes, readAtMs, readAtMs + lifetimeMs(MAX_AGE_MS));
  }

  storeAbsent(namespace: Namespace, key: string, readAtMs = monotonicMs()): void {
    this.arena.putAbsent(namespace, key, readAtMs, readAtMs + lifetimeMs(MAX_ABSENCE_MS));
  }

  /** Returns the entry of a key that was missed if it has been stored since. Counts none. */
  entryOf(namespace: Namespace, key: string): Entry | undefined {
    const ref = this.#refOf(namespace, key, monotonicMs());
    return ref > 0 ? new Entry(this.arena.read(ref)) : undefined;
  }

  /** Returns the entry of a key, of any age, for use while PostgreSQL is unavailable. Undefined: none. */
  lastKnown(namespace: Namespace, key: string): Found | undefined {
    // at time -Infinity no entry has expired
    const ref = this.arena.find(namespace, key, -Infinity, -Infinity, wallMs());
    if (ref === MISS) return undefined;
    return ref === ABSENT ? null : new Entry(this.arena.read(ref));
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

  #counted(batchLookup: BatchLookup): BatchLookup {
    if (!this.isEnabled) return batchLookup;
    this.#counts.hit += batchLookup.hits;
    this.#counts.absent += batchLookup.absences;
    this.#counts.miss += batchLookup.misses;
    return batchLookup;
  }

  #refOf(namespace: Namespace, key: string, nowMs: number): number {
    const oldestMs = this.#options.freshness.oldestReadMs(nowMs);
    return this.arena.find(namespace, key, nowMs, oldestMs, wallAt(nowMs));
  }
}
