import type { Entry } from '../hotels/entry.ts';
import { KEY_PREFIX, type Namespace } from '../hotels/namespace.ts';
import { lifetimeMs } from '../lib/lifetime.ts';
import type { RedisCacheOptions, RedisStore, TimedValue } from '../redis/store.ts';

/** Prefix of a pointer; the hotel's id follows. */
const POINTER_PREFIX = '>';

/**
 * Hotels in Redis: entries under `<prefix>:h:<hotel id>`, and pointers from channel ids and registry ids to hotel ids under
 * `<prefix>:c:…` and `<prefix>:r:…`. Values are set after a load and are never removed. Entries carry labels, by which a reader
 * decides whether to use them. A pointer needs none: the entry contains the ids that the hotel has. That no hotel has a key is not
 * stored here: any client could fill Redis with such keys.
 */
export class RedisHotelCache {
  readonly #redis: RedisStore;
  readonly #options: RedisCacheOptions;

  constructor(redis: RedisStore, options: RedisCacheOptions) {
    this.#redis = redis;
    this.#options = options;
  }

  /** Returns what precedes a key of this namespace in its name. */
  prefixOf(namespace: Namespace): string {
    return `${this.#options.prefix()}:${KEY_PREFIX[namespace]}`;
  }

  /** Counts a value that is none of those that this class stores. */
  onInvalidValue(): void {
    this.#options.onInvalidValue();
  }

  /** Stores entries, and pointers from their channel and registry ids. */
  async fill(entries: Entry[]): Promise<void> {
    const values: TimedValue[] = [];
    for (const { id, channelId, registryId, bytes } of entries) {
      // the same lifetime for all, so that one load restores all
      const ttlMs = lifetimeMs(this.#options.ttlMs);
      const pointer = POINTER_PREFIX + id;
      values.push([this.prefixOf('id') + id, bytes, ttlMs]);
      if (channelId !== null) values.push([this.prefixOf('channel') + channelId, pointer, ttlMs]);
      if (registryId !== null) values.push([this.prefixOf('registry') + registryId, pointer, ttlMs]);
    }
    await this.#redis.setMany(values);
  }
}
