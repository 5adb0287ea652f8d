import type { Entry, Found } from '../hotels/entry.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { monotonicMs, wallAt } from '../lib/clock.ts';
import type { Window } from '../log/window.ts';
import type { CountLookups } from './hotel-loader.ts';
import type { RedisHotelCache } from './redis-hotel-cache.ts';

interface RedisHotelReaderOptions {
  cache: RedisHotelCache;
  window: Window;
  count: CountLookups;
}

/** Reads hotels from Redis, and uses those of which no newer change is known. */
export class RedisHotelReader {
  readonly #cache: RedisHotelCache;
  readonly #window: Window;
  readonly #count: CountLookups;

  constructor({ cache, window, count }: RedisHotelReaderOptions) {
    this.#cache = cache;
    this.#window = window;
    this.#count = count;
  }

  /**
   * Returns the hotels in Redis as they read today, null for absent and undefined for unknown keys. Keys with a `known`
   * result are not requested.
   */
  async read(
    namespace: Namespace,
    keys: string[],
    known: (Found | undefined)[] | undefined,
  ): Promise<(Found | undefined)[]> {
    const asked = known ? keys.filter((_, i) => known[i] === undefined) : keys;
    const prefix = this.#cache.prefixOf(namespace);
    let found =
      namespace === 'id'
        ? this.#usable(asked, await this.#cache.entries(asked))
        : await this.#readPointers(namespace, asked);
    // the labels of the former history mean nothing in the window of another
    if (this.#cache.prefixOf(namespace) !== prefix) found = found.map(() => undefined);
    const absent = found.filter((entry) => entry === null).length;
    const misses = found.filter((entry) => entry === undefined).length;
    this.#count('redis', 'hit', asked.length - absent - misses);
    this.#count('redis', 'absent', absent);
    this.#count('redis', 'miss', misses);
    if (!known) return found;
    let next = 0;
    return known.map((entry) => (entry === undefined ? found[next++] : entry));
  }

  async #readPointers(namespace: 'channel' | 'registry', keys: string[]): Promise<(Found | undefined)[]> {
    const pointers = await this.#cache.pointers(namespace, keys);
    const ids = pointers.map((pointer) => (pointer && 'id' in pointer ? pointer.id : undefined));
    const asked = ids.filter((id) => id !== undefined);
    const entries = this.#usable(asked, asked.length > 0 ? await this.#cache.entries(asked) : []);
    let next = 0;
    return keys.map((key, i) => {
      if (ids[i] !== undefined) {
        const entry = entries[next++];
        // the hotel of an outdated pointer does not have the key any more
        return entry?.isOf(namespace, key) ? entry : undefined;
      }
      const pointer = pointers[i];
      if (!pointer || !('absentLabel' in pointer)) return undefined;
      return this.#window.covers(namespace, key, pointer.absentLabel) ? null : undefined;
    });
  }

  /** Returns the entries as they read today, null for absences; undefined where a newer change may be known. */
  #usable(ids: string[], entries: (Entry | undefined)[]): (Found | undefined)[] {
    const nowMs = wallAt(monotonicMs());
    return entries.map((entry, i) => {
      if (!entry || !this.#window.covers('id', ids[i]!, entry.label)) return undefined;
      return entry.present ? entry.at(nowMs) : null;
    });
  }
}
