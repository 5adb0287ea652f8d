import type { RedisKeyCache } from '../auth/redis-key-cache.ts';
import type { RedisHotelCache } from '../cache/redis-hotel-cache.ts';
import type { Entry } from '../hotels/entry.ts';
import { withDeadline } from '../lib/deadline.ts';
import type { RedisStore } from '../redis/store.ts';
import type { Standing } from '../redis/versioned-values.ts';
import type { Claims, Findings } from './compare.ts';
import type { Drained } from './drain.ts';
import type { Changes } from './messages.ts';

/** Under this name the active invalidator leaves a sign of life behind every write. */
const MARKER = 'beat';
/** In a sign of life, between the name of the term and how many it had left. */
const COUNTED = ':';
/**
 * A write that takes longer is given up, and with it what Redis holds: the workers are not to wait for it. Nor is
 * PostgreSQL, which hears nothing meanwhile and ends the session of an invalidator that is silent for 1200 ms.
 */
export const WRITE_MS = 600;

const NOTHING: Standing = new Map();

/** Redis as the invalidator writes it. */
export interface RedisStores {
  redis: RedisStore;
  hotels: RedisHotelCache;
  keys: RedisKeyCache;
}

export interface Written {
  /** why Redis is no longer to be trusted: its values must be given up; undefined: all is there */
  suspect: string | undefined;
  /** true: it may have been wrong for a while, and what was read there lately is doubtful too */
  lost: boolean;
  /** where Redis holds what claims to be newer than the present state */
  rejected: Claims;
}

/**
 * Writes changes to Redis and knows whether Redis still holds all that was written. Behind each write it leaves
 * a new sign of life, and finds the last one there: what Redis lost (restarted, restored, failed over to a
 * replica that was behind) was written before a sign that is lost too.
 */
export class RedisWriter {
  readonly #redis: RedisStore;
  readonly #hotels: RedisHotelCache;
  readonly #keys: RedisKeyCache;
  readonly #markerKey: string;
  readonly #term: string;
  #writeMarker: string | null;
  #count = 0;

  /** `history`: what tells its keys from those of others; `lastBeat`: the sign that the last invalidator left, as it told; null: unknown. */
  constructor(
    { redis, hotels, keys }: RedisStores,
    history: string,
    term: string,
    lastMarker: string | null,
  ) {
    this.#redis = redis;
    this.#hotels = hotels;
    this.#keys = keys;
    this.#markerKey = `${history}:${MARKER}`;
    this.#term = term;
    this.#writeMarker = lastMarker;
  }

  /** The last sign that was left; null when Redis may lack something. */
  get writeMarker(): string | null {
    return this.#writeMarker;
  }

  useGeneration(generation: string): void {
    this.#hotels.useGeneration(generation);
    this.#keys.useGeneration(generation);
  }

  /** Writes what was drained (nothing, between changes). */
  async write(drained: Pick<Drained, 'entries' | 'keys' | 'changes'>): Promise<Written> {
    return withDeadline(this.#write(drained), WRITE_MS).catch(() => {
      this.#writeMarker = null;
      return { suspect: 'it takes too long', lost: false, rejected: { hotels: NOTHING, keys: NOTHING } };
    });
  }

  /**
   * Stores the truth in the place of what Redis claims. What it claims by now and did not when the truth was read is not
   * replaced: this process may have been stopped in between, and another invalidator may have written since. Returns
   * what was refused for that; undefined where Redis did not take all of the rest in time.
   */
  async replace({ entries, keys, claimed }: Findings): Promise<Claims | undefined> {
    const taking = Promise.all([
      entries.length > 0 ? this.#hotels.fill(entries, claimed.hotels) : NOTHING,
      keys.length > 0 ? this.#keys.fill(keys, claimed.keys) : NOTHING,
    ]);
    const [hotels, refusedKeys] = await withDeadline(taking, WRITE_MS).catch(() => []);
    return hotels && refusedKeys && { hotels, keys: refusedKeys };
  }

  async #write({ entries, keys, changes }: Pick<Drained, 'entries' | 'keys' | 'changes'>): Promise<Written> {
    const count = ++this.#count;
    const left = `${this.#term}${COUNTED}${count}`;
    const [taken, keysTaken] = await Promise.all([
      this.#writeHotels(entries, changes),
      keys.length > 0 ? this.#keys.fill(keys) : NOTHING,
    ]);
    const expected = this.#writeMarker;
    const isKept = (found: string) => expected !== null && isNoOlder(found, expected);
    const kept = await this.#redis.mark(this.#markerKey, isKept, left);
    const complete = taken !== undefined && keysTaken !== undefined;
    // one that was given up for its slowness does not speak for those that came after it
    if (count === this.#count) this.#writeMarker = complete && kept !== undefined ? left : null;
    const rejected = { hotels: taken ?? NOTHING, keys: keysTaken ?? NOTHING };
    if (kept !== undefined && expected === null)
      return { suspect: 'it is not known what it missed', lost: true, rejected };
    if (kept === false) return { suspect: 'it has lost what was written', lost: true, rejected };
    if (!complete) return { suspect: 'it did not take a change', lost: false, rejected };
    // without a mark nobody would notice that Redis, or a node of a cluster whose others are away, loses a change; so
    // nothing is left under a generation that is older than the last change
    const unavailable = kept === undefined && (expected !== null || entries.length + keys.length > 0);
    return { suspect: unavailable ? 'it does not answer' : undefined, lost: false, rejected };
  }

  async #writeHotels(entries: Entry[], changes: Changes): Promise<Standing | undefined> {
    if (entries.length === 0) return NOTHING;
    if (!entries[0]!.isTombstone) return this.#hotels.fill(entries);
    const carried = { channel: [] as string[], registry: [] as string[] };
    for (const [, , channelId, registryId] of changes.hotels) {
      if (channelId !== null) carried.channel.push(channelId);
      if (registryId !== null) carried.registry.push(registryId);
    }
    return this.#hotels.storeTombstones(entries, carried);
  }
}

/**
 * True where the sign that is found is the one that was told of, or a later one of the same term, whose session ended
 * before it could tell of it: all that was written before the one is there too.
 */
function isNoOlder(found: string, announced: string): boolean {
  const [[foundTerm, foundCount], [announcedTerm, announcedCount]] = [
    found.split(COUNTED),
    announced.split(COUNTED),
  ];
  return foundTerm === announcedTerm && Number(foundCount) >= Number(announcedCount);
}
