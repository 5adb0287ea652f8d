import type { Entry, Found } from '../hotels/entry.ts';
import { LETTER, type Namespace } from '../hotels/namespace.ts';
import type { HotelLoaderOptions } from './hotel-loader.ts';
import type { RedisHotelCache } from './redis-hotel-cache.ts';

/** Ids of the hotels that a key may see. */
type VisibleIds = Pick<ReadonlySet<string>, 'has'>;

/** Reads hotels from Redis and checks them against recent changes and today's date. */
export class RedisHotelReader {
  readonly #cache: RedisHotelCache;
  readonly #options: HotelLoaderOptions;
  /** ids whose entries are being rewritten after their certification flipped */
  readonly #refreshing = new Set<string>();

  /** While `isFeedUp` returns false, entries are not written back to Redis. */
  constructor(redisCache: RedisHotelCache, options: HotelLoaderOptions) {
    this.#cache = redisCache;
    this.#options = options;
  }

  /**
   * Returns the hotels in Redis, undefined for unknown keys. Keys with a `known` result are not requested. With `visible`,
   * hotels with other ids and absent ones are unknown, and no entry is requested for them.
   */
  async read(
    namespace: Namespace,
    keys: string[],
    known: (Found | undefined)[] | undefined,
    visible?: VisibleIds,
  ): Promise<(Found | undefined)[]> {
    const asked = known ? keys.filter((_, i) => known[i] === undefined) : keys;
    const entries =
      namespace === 'id'
        ? this.#checked(await this.#cache.entries(asked))
        : await this.#readPointers(namespace, asked, visible);
    const absent = entries.filter((entry) => entry === null).length;
    const misses = entries.filter((entry) => entry === undefined).length;
    const { count } = this.#options;
    count('redis', 'hit', asked.length - absent - misses);
    count('redis', 'absent', absent);
    count('redis', 'miss', misses);
    if (!known) return entries;
    let next = 0;
    return known.map((entry) => entry ?? entries[next++]);
  }

  async #readPointers(
    namespace: 'channel' | 'registry',
    keys: string[],
    visible: VisibleIds | undefined,
  ): Promise<(Found | undefined)[]> {
    const pointers = await this.#cache.pointers(namespace, keys);
    const ids = visible
      ? pointers.map((id) => (typeof id === 'string' && visible.has(id) ? id : undefined))
      : pointers;
    const asked = ids.filter((id) => typeof id === 'string');
    const entries = this.#checked(asked.length > 0 ? await this.#cache.entries(asked) : []);
    let next = 0;
    const unconfirmed: string[] = [];
    const found = ids.map((id, i) => {
      // a late fill may have stored an absence that a change has since made wrong
      if (id === null && this.#options.recent.hasChange(LETTER[namespace] + keys[i])) return undefined;
      if (typeof id !== 'string') return id;
      const entry = entries[next++];
      if (entry?.isOf(namespace, keys[i]!)) return entry;
      // the pointer is outdated and does not name the hotel that has the key now
      if (entry !== undefined) unconfirmed.push(keys[i]!);
      return undefined;
    });
    if (unconfirmed.length > 0) this.#cache.removePointers(namespace, unconfirmed);
    return found;
  }

  /** Returns the entries as they read today; undefined for a version older than a known change. */
  #checked(entries: (Entry | undefined)[]): (Found | undefined)[] {
    const nowMs = Date.now();
    const { recent } = this.#options;
    // without changes there is no need to read the ids
    const hasChanges = recent.size > 0;
    const refreshed: Entry[] = [];
    const checked = entries.map((entry) => {
      if (!entry || (hasChanges && recent.isOutdated(LETTER.id + entry.id, entry.version))) return undefined;
      if (!entry.present) return null;
      const today = entry.at(nowMs);
      if (today !== entry && !this.#refreshing.has(today.id)) refreshed.push(today);
      return today;
    });
    if (refreshed.length > 0 && this.#options.isFeedUp()) this.#fillRefreshed(refreshed);
    return checked;
  }

  /** Writes entries with a flipped certification back to Redis, each once at a time. */
  async #fillRefreshed(refreshed: Entry[]): Promise<void> {
    for (const { id } of refreshed) this.#refreshing.add(id);
    await this.#cache.fill(refreshed);
    for (const { id } of refreshed) this.#refreshing.delete(id);
  }
}
