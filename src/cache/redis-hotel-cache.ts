import { encodeAbsence } from '../hotels/encode.ts';
import { type Entry, readEntry } from '../hotels/entry.ts';
import { LETTER, mayExist, type Namespace } from '../hotels/namespace.ts';
import { lifetimeMs, type RedisCacheOptions } from '../redis/lifetime.ts';
import type { RedisStore, TimedValue } from '../redis/store.ts';

/** Prefix of a pointer; the hotel's id follows. */
const POINTER_PREFIX = '>';
const POINTER = POINTER_PREFIX.charCodeAt(0);
/** Prefix of the absence of a pointer; the entry of an absent hotel with this key follows. */
const ABSENCE_PREFIX = '-';
const ABSENCE = ABSENCE_PREFIX.charCodeAt(0);

/** The hotel that had a key, or the label of a read at which no hotel had it. */
export type Pointer = { id: string } | { absentLabel: number };

/**
 * Hotels in Redis: entries under `<prefix>:h:<hotel id>`, and pointers from channel ids and registry ids to hotel ids under
 * `<prefix>:c:…` and `<prefix>:r:…`. Values are set after a load and are never removed. Entries and absences carry labels, by
 * which a reader decides whether to use them. A pointer needs none: the entry contains the ids that the hotel has.
 */
export class RedisHotelCache {
  readonly #redis: RedisStore;
  readonly #options: RedisCacheOptions;
  #prefix = '';

  constructor(redis: RedisStore, options: RedisCacheOptions) {
    this.#redis = redis;
    this.#options = options;
  }

  /** Sets the prefix of the names to read and write. Labels are comparable under one prefix only. */
  usePrefix(prefix: string): void {
    this.#prefix = `${prefix}:`;
  }

  prefixOf(namespace: Namespace): string {
    return this.#prefix + LETTER[namespace];
  }

  /** Returns what Redis holds of each key; undefined if it has nothing or an invalid value. */
  async pointers(namespace: 'channel' | 'registry', keys: string[]): Promise<(Pointer | undefined)[]> {
    const values = await this.#redis.readMany(keys, this.prefixOf(namespace));
    return keys.map((key, i) => {
      const value = values?.value(i);
      if (!value) return undefined;
      if (value[0] === POINTER) return { id: value.toString('utf8', 1) };
      const absence = value[0] === ABSENCE ? readEntry(value, 1) : undefined;
      if (absence && !absence.present && absence.isOf(namespace, key)) return { absentLabel: absence.label };
      this.#options.onInvalidValue();
      return undefined;
    });
  }

  /**
   * Returns the entry of each id, which may be an absence; undefined if Redis has none, or a corrupt one or one of
   * another id. The entries are views of the reply and must not be kept.
   */
  async entries(ids: string[]): Promise<(Entry | undefined)[]> {
    const values = await this.#redis.readMany(ids, this.prefixOf('id'));
    return ids.map((id, i) => {
      if (!values || values.isNull(i)) return undefined;
      const entry = readEntry(values.bytes, values.start(i), values.end(i));
      if (entry?.isOf('id', id)) return entry;
      this.#options.onInvalidValue();
      return undefined;
    });
  }

  /** Stores entries, and pointers from their channel and registry ids. */
  async fill(entries: Entry[]): Promise<void> {
    const values: TimedValue[] = [];
    for (const { id, channelId, registryId, bytes, present } of entries) {
      // the same lifetime for all, so that one load restores all
      const ttlMs = lifetimeMs(present ? this.#options.ttlMs : this.#options.absentTtlMs);
      const pointer = POINTER_PREFIX + id;
      values.push([this.prefixOf('id') + id, bytes, ttlMs]);
      if (channelId !== null) values.push([this.prefixOf('channel') + channelId, pointer, ttlMs]);
      if (registryId !== null) values.push([this.prefixOf('registry') + registryId, pointer, ttlMs]);
    }
    await this.#redis.setMany(values);
  }

  /** Stores for a short time that no hotel had these keys when they were read at `label`. */
  async rememberAbsent(namespace: Namespace, keys: string[], label: number): Promise<void> {
    const start = this.prefixOf(namespace);
    await this.#redis.setMany(
      keys.map((key) => [
        start + key,
        absenceOf(namespace, key, label),
        lifetimeMs(this.#options.absentTtlMs),
      ]),
    );
  }

  /** Stores one of the lists of ids in use. */
  async storeHotIds(place: number, ids: string[]): Promise<void> {
    await this.#redis.setMany([[this.#hotIdsKey(place), JSON.stringify(ids), this.#options.ttlMs]]);
  }

  /** Returns one of the lists of ids in use; an empty one if Redis has none, or a corrupt one. */
  async hotIds(place: number): Promise<string[]> {
    const text = (await this.#redis.readMany([this.#hotIdsKey(place)], ''))?.value(0)?.toString();
    try {
      const ids: unknown = text && JSON.parse(text);
      return Array.isArray(ids) ? ids.filter((id) => typeof id === 'string' && mayExist('id', id)) : [];
    } catch {
      this.#options.onInvalidValue();
      return [];
    }
  }

  #hotIdsKey(place: number): string {
    return `${this.#prefix}hot:${place}`;
  }
}

/** Returns the value in Redis by which no hotel had this key when it was read at `label`. */
export function absenceOf(namespace: Namespace, key: string, label: number): Buffer {
  const { bytes } = encodeAbsence(namespace, key, label);
  return namespace === 'id' ? bytes : Buffer.concat([Buffer.from(ABSENCE_PREFIX), bytes]);
}
