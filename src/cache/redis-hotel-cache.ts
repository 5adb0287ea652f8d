import { encodeAbsence } from '../hotels/encode.ts';
import { type Entry, readEntry } from '../hotels/entry.ts';
import { CHECKSUM_AT } from '../hotels/entry-layout.ts';
import { LETTER, mayExist, type Namespace } from '../hotels/namespace.ts';
import type { RedisStore, TimedValue } from '../redis/store.ts';
import {
  type Codec,
  lifetimeMs,
  type NewerVersionsByKey,
  type RedisCacheOptions,
  VersionedValues,
} from '../redis/versioned-values.ts';

/** Prefix of a pointer; the hotel's id follows. */
const POINTER_PREFIX = '>';
/** Value of a pointer while no hotel has the key. */
const NO_HOTEL = '-';
/** Twice the maximum time of a load: later, no load from before the change can arrive. */
const TOMBSTONE_TTL_MS = 120_000;
/** Number of keys removed by one command. */
const REMOVE_COUNT = 1_000;

const CODEC: Codec<Entry> = {
  letter: LETTER.id,
  keyOf: ({ id }) => id,
  encode: ({ bytes }) => bytes,
  decode: (id, bytes, start, end) => {
    const entry = readEntry(bytes, start, end);
    return entry?.isOf('id', id) ? entry : undefined;
  },
};

/**
 * Hotels in Redis: entries under `<generation>:h:<hotel id>`, and pointers from channel ids and registry ids to hotel ids
 * under `<generation>:c:…` and `<generation>:r:…`. An entry contains its channel id and registry id, which reveals an
 * outdated pointer.
 */
export class RedisHotelCache {
  readonly #redis: RedisStore;
  readonly #entries: VersionedValues<Entry>;
  readonly #options: RedisCacheOptions;
  #prefix = '';

  constructor(redis: RedisStore, sharing: RedisCacheOptions) {
    this.#redis = redis;
    this.#entries = new VersionedValues(redis, CODEC, sharing);
    this.#options = sharing;
  }

  /** Sets the generation of the keys to read and write. */
  useGeneration(generation: string): void {
    this.#prefix = `${generation}:`;
    this.#entries.useGeneration(generation);
  }

  prefixOf(namespace: Namespace): string {
    return this.#prefix + LETTER[namespace];
  }

  /** Returns the hotel id of each key; null: no hotel has the key, undefined: unknown to Redis. */
  async pointers(namespace: 'channel' | 'registry', keys: string[]): Promise<(string | null | undefined)[]> {
    const values = await this.#redis.readMany(keys, this.prefixOf(namespace));
    if (values === undefined) return new Array(keys.length).fill(undefined);
    const invalid: string[] = [];
    const ids = keys.map((key, i) => {
      const value = values.value(i)?.toString();
      if (value === undefined) return undefined;
      if (value.startsWith(POINTER_PREFIX)) return value.slice(POINTER_PREFIX.length);
      if (value === NO_HOTEL) return null;
      this.#options.onInvalidValue();
      invalid.push(key);
      return undefined;
    });
    if (invalid.length > 0) this.removePointers(namespace, invalid);
    return ids;
  }

  /** Removes pointers that are wrong or unconfirmed. Returns false if Redis did not complete it. */
  async removePointers(namespace: 'channel' | 'registry', keys: string[]): Promise<boolean> {
    const start = this.prefixOf(namespace);
    for (let i = 0; i < keys.length; i += REMOVE_COUNT) {
      const names = keys.slice(i, i + REMOVE_COUNT).map((key) => start + key);
      if ((await this.#redis.remove(names)) === undefined) return false;
    }
    return true;
  }

  /**
   * Returns the entry of each id, which may be an absence; undefined if Redis has none, or a corrupt one or one of
   * another id. The entries are views of the reply and must not be kept.
   */
  async entries(ids: string[]): Promise<(Entry | undefined)[]> {
    const held = await this.entriesAndTombstones(ids);
    for (const [i, entry] of held.entries()) if (entry?.isTombstone) held[i] = undefined;
    return held;
  }

  /** Returns the same with tombstones. */
  entriesAndTombstones(ids: string[]): Promise<(Entry | undefined)[]> {
    return this.#entries.read(ids);
  }

  /**
   * Stores entries or tombstones, unless Redis holds a newer version, and pointers from their channel and registry ids.
   * `over` lists by id the wrong versions to be replaced. Returns the rejected ones; undefined if Redis did not complete it.
   */
  async fill(entries: Entry[], over?: NewerVersionsByKey): Promise<NewerVersionsByKey | undefined> {
    const ttlMs = entries[0]?.isTombstone ? TOMBSTONE_TTL_MS : this.#options.ttlMs;
    const [rejected, pointed] = await Promise.all([
      this.#entries.store(entries, ttlMs, over),
      this.#point(entries),
    ]);
    return pointed ? rejected : undefined;
  }

  /** Stores pointers from channel and registry ids to their entries. Returns false if Redis did not complete it. */
  async #point(entries: Entry[]): Promise<boolean> {
    const pointers: TimedValue[] = [];
    for (const { id, channelId, registryId, bytes } of entries) {
      // the same lifetime as the entry, so that one load restores both
      const ttlMs = lifetimeMs(this.#options.ttlMs, bytes.readUInt32LE(CHECKSUM_AT));
      const pointer = POINTER_PREFIX + id;
      if (channelId !== null) pointers.push([this.prefixOf('channel') + channelId, pointer, ttlMs]);
      if (registryId !== null) pointers.push([this.prefixOf('registry') + registryId, pointer, ttlMs]);
    }
    return pointers.length === 0 || (await this.#redis.setMany(pointers, false)) !== undefined;
  }

  /**
   * Replaces older entries by tombstones and removes the pointers of their channel and registry ids. Returns the same as
   * `fill`.
   */
  async storeTombstones(
    tombstones: Entry[],
    carried: { channel: string[]; registry: string[] },
  ): Promise<NewerVersionsByKey | undefined> {
    const [rejected, channel, registry] = await Promise.all([
      this.fill(tombstones),
      this.removePointers('channel', carried.channel),
      this.removePointers('registry', carried.registry),
    ]);
    return channel && registry ? rejected : undefined;
  }

  /** Returns some of the hotel ids in Redis and the cursor of the next call; undefined if Redis does not reply. */
  scan(cursor: string): Promise<[cursor: string, ids: string[]] | undefined> {
    return this.#entries.scan(cursor);
  }

  /** Stores one of the lists of ids in use. */
  async storeHotIds(place: number, ids: string[]): Promise<void> {
    await this.#redis.setMany([[this.#hotIdsKey(place), JSON.stringify(ids), this.#options.ttlMs]], false);
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

  /** Stores for a short time that no hotel has these keys, unless Redis holds newer pointers. */
  async rememberAbsent(namespace: Namespace, keys: string[]): Promise<void> {
    const start = this.prefixOf(namespace);
    const values = keys.map(
      (key): TimedValue => [
        start + key,
        namespace === 'id' ? encodeAbsence(key, 0).bytes : NO_HOTEL,
        lifetimeMs(this.#options.absentTtlMs, 2 ** 32 * Math.random()),
      ],
    );
    await this.#redis.setMany(values, true);
  }
}
