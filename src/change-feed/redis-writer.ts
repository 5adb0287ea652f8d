import type { VersionedKey } from '../auth/key-record.ts';
import type { RedisKeyCache } from '../auth/redis-key-cache.ts';
import type { RedisHotelCache } from '../cache/redis-hotel-cache.ts';
import type { Entry } from '../hotels/entry.ts';
import { withDeadline } from '../lib/deadline.ts';
import type { RedisStore } from '../redis/store.ts';
import type { NewerVersionsByKey } from '../redis/versioned-values.ts';
import type { Drained } from './drain.ts';
import type { Changes } from './messages.ts';
import { isNoOlder, markerKey, markerOf } from './write-marker.ts';

/**
 * Timeout of a write, after which Redis is invalidated. Workers must not wait longer, and PostgreSQL ends a session
 * that is silent for 1200 ms.
 */
export const WRITE_MS = 600;

const NOTHING: NewerVersionsByKey = new Map();

/** Redis as the invalidator writes it. */
export interface RedisStores {
  redis: RedisStore;
  hotels: RedisHotelCache;
  keys: RedisKeyCache;
}

/** Versions in Redis that are newer than PostgreSQL's, by hotel id and by sha256 of a key. */
export interface NewerVersions {
  hotels: NewerVersionsByKey;
  keys: NewerVersionsByKey;
}

/** State of PostgreSQL for wrong values in Redis. Only the versions in `replaced` may be replaced by older ones. */
export interface Corrections {
  entries: Entry[];
  keys: [sha256: string, key: VersionedKey][];
  replaced: NewerVersions;
}

interface Written {
  /** reason why values in Redis must be invalidated; undefined: all writes succeeded */
  suspect: string | undefined;
  /** true: Redis may have been wrong for a while, so recent reads are suspect */
  lost: boolean;
  /** values in Redis that claim to be newer than the present state */
  rejected: NewerVersions;
}

/**
 * Writes changes to Redis and detects lost writes. After each write it leaves a new marker and expects to find the
 * last one. Redis loses writes by a restart, a restore or a failover to a delayed replica. What it lost was written
 * before a marker that is lost too.
 */
export class RedisWriter {
  readonly #stores: RedisStores;
  readonly #markerKey: string;
  readonly #term: string;
  /** the last marker; null if Redis may lack a write */
  writeMarker: string | null;
  #count = 0;

  /**
   * `history`: distinguishes its keys from those of others; `lastMarker`: the marker of the last invalidator; null:
   * unknown.
   */
  constructor(stores: RedisStores, history: string, term: string, lastMarker: string | null) {
    this.#stores = stores;
    this.#markerKey = markerKey(history);
    this.#term = term;
    this.writeMarker = lastMarker;
  }

  useGeneration(generation: string): void {
    this.#stores.hotels.useGeneration(generation);
    this.#stores.keys.useGeneration(generation);
  }

  /** Writes the drained changes, or only a marker. */
  async write(drained: Pick<Drained, 'entries' | 'keys' | 'changes'>): Promise<Written> {
    // without a marker a loss in Redis would go unnoticed: the generation ends once, and then with each change, so nothing is
    // left under a generation that is older than the last change
    const mustInvalidate = this.writeMarker !== null || drained.entries.length + drained.keys.length > 0;
    return withDeadline(this.#write(drained, mustInvalidate), WRITE_MS).catch(() => {
      // a marker that is left after this does not count, because it is not known what Redis lost until then
      this.#count++;
      this.writeMarker = null;
      const suspect = mustInvalidate ? 'it takes too long' : undefined;
      return { suspect, lost: false, rejected: { hotels: NOTHING, keys: NOTHING } };
    });
  }

  /**
   * Replaces values that are newer in Redis than in PostgreSQL. Only the versions found before the rows were read are
   * replaced. This process may have been stopped in between, and another invalidator may have written since. Returns
   * the rejected values, or undefined if Redis did not take the rest in time.
   */
  async replace({ entries, keys, replaced }: Corrections): Promise<NewerVersions | undefined> {
    const taking = Promise.all([
      entries.length > 0 ? this.#stores.hotels.fill(entries, replaced.hotels) : NOTHING,
      keys.length > 0 ? this.#stores.keys.fill(keys, replaced.keys) : NOTHING,
    ]);
    const [hotels, rejectedKeys] = await withDeadline(taking, WRITE_MS).catch(() => []);
    return hotels && rejectedKeys && { hotels, keys: rejectedKeys };
  }

  /** `mustInvalidate`: the generation ends if Redis takes no marker. */
  async #write(
    { entries, keys, changes }: Pick<Drained, 'entries' | 'keys' | 'changes'>,
    mustInvalidate: boolean,
  ): Promise<Written> {
    const count = ++this.#count;
    const left = markerOf(this.#term, count);
    const [taken, keysTaken] = await Promise.all([
      this.#writeHotels(entries, changes),
      keys.length > 0 ? this.#stores.keys.fill(keys) : NOTHING,
    ]);
    const expected = this.writeMarker;
    const isKept = (found: string) => expected !== null && isNoOlder(found, expected);
    const kept = await this.#stores.redis.mark(this.#markerKey, isKept, left);
    const complete = taken !== undefined && keysTaken !== undefined;
    // a write that timed out says nothing about later ones
    if (count === this.#count) this.writeMarker = complete && kept !== undefined ? left : null;
    const rejected = { hotels: taken ?? NOTHING, keys: keysTaken ?? NOTHING };
    if (kept !== undefined && expected === null)
      return { suspect: 'it is not known what it missed', lost: true, rejected };
    if (kept === false) return { suspect: 'it has lost what was written', lost: true, rejected };
    if (!complete) return { suspect: 'it did not take a change', lost: false, rejected };
    const isUnavailable = kept === undefined && mustInvalidate;
    return { suspect: isUnavailable ? 'it does not answer' : undefined, lost: false, rejected };
  }

  async #writeHotels(entries: Entry[], changes: Changes): Promise<NewerVersionsByKey | undefined> {
    if (entries.length === 0) return NOTHING;
    if (!entries[0]!.isTombstone) return this.#stores.hotels.fill(entries);
    const carried = { channel: [] as string[], registry: [] as string[] };
    for (const [, , channelId, registryId] of changes.hotels) {
      if (channelId !== null) carried.channel.push(channelId);
      if (registryId !== null) carried.registry.push(registryId);
    }
    return this.#stores.hotels.storeTombstones(entries, carried);
  }
}
