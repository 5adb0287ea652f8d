import { encodeAbsence } from '../hotels/encode.ts';
import { type Entry, readEntry } from '../hotels/entry.ts';
import { LETTER, type Namespace } from '../hotels/namespace.ts';
import { lifetimeMs } from '../redis/lifetime.ts';
import type { RedisStore } from '../redis/store.ts';
import {
  type Codec,
  type RedisCacheOptions,
  type Standing,
  VersionedValues,
} from '../redis/versioned-values.ts';

/** What a pointer begins with; behind it stands the hotel's id. */
const POINTER_PREFIX = '>';
const POINTER_PREFIX_BYTE = 0x3e;
/** What stands in a pointer's place when no hotel carries the id. */
const NO_HOTEL = '-';
const NO_HOTEL_BYTE = 0x2d;
/** Half of it is longer than any load takes that began before the change: after it nothing older can come. */
const TOMBSTONE_TTL_MS = 120_000;
/** Keys removed by one command. */
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
 * Hotels in Redis: entries under `<generation>:h:<hotel id>`, and pointers from channel ids and registry ids to
 * hotel ids under `<generation>:c:…` and `<generation>:r:…`. An entry carries its own channel id and registry id,
 * so a pointer that is out of date shows itself.
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

  /** From now on only keys of this generation are read and written. */
  useGeneration(generation: string): void {
    this.#prefix = `${generation}:`;
    this.#entries.useGeneration(generation);
  }

  /** What stands in Redis before the keys of a namespace. */
  prefixOf(namespace: Namespace): string {
    return this.#prefix + LETTER[namespace];
  }

  /** For each key the hotel id, null when no hotel carries it, undefined when Redis does not know. */
  async pointers(namespace: 'channel' | 'registry', keys: string[]): Promise<(string | null | undefined)[]> {
    const values = await this.#redis.readMany(keys, this.prefixOf(namespace));
    if (values === undefined) return new Array(keys.length).fill(undefined);
    const invalid: string[] = [];
    const { bytes } = values;
    const ids = keys.map((key, i) => {
      if (values.isNull(i)) return undefined;
      const [start, end] = [values.start(i), values.end(i)];
      if (bytes[start] === POINTER_PREFIX_BYTE) return bytes.toString('utf8', start + 1, end);
      if (bytes[start] === NO_HOTEL_BYTE && end === start + 1) return null;
      this.#options.onInvalidValue();
      invalid.push(key);
      return undefined;
    });
    if (invalid.length > 0) this.removePointers(namespace, invalid);
    return ids;
  }

  /**
   * Forgets where these keys point to: the hotel there does not carry them, or is not known. Returns false when
   * Redis did not take all of it.
   */
  async removePointers(namespace: 'channel' | 'registry', keys: string[]): Promise<boolean> {
    const start = this.prefixOf(namespace);
    for (let i = 0; i < keys.length; i += REMOVE_COUNT) {
      const names = keys.slice(i, i + REMOVE_COUNT).map((key) => start + key);
      if ((await this.#redis.remove(names)) === undefined) return false;
    }
    return true;
  }

  /**
   * For each id the entry (which may say that the hotel is absent) or undefined when Redis does not know.
   * What is damaged or belongs to another id counts as unknown. The entries view the reply: not to be kept.
   */
  async entries(ids: string[]): Promise<(Entry | undefined)[]> {
    const held = await this.held(ids);
    for (const [i, entry] of held.entries()) if (entry?.isTombstone) held[i] = undefined;
    return held;
  }

  /** The same, with tombstones as they stand. */
  held(ids: string[]): Promise<(Entry | undefined)[]> {
    return this.#entries.read(ids);
  }

  /**
   * Stores entries (or tombstones, of all) unless Redis holds a newer version, and points their channel and registry ids
   * at them. Those of `over` are replaced: by id, the version that was found to be wrong. Returns what was refused;
   * undefined when Redis did not take all of it.
   */
  async fill(entries: Entry[], over?: Standing): Promise<Standing | undefined> {
    const ttlMs = entries[0]?.isTombstone ? TOMBSTONE_TTL_MS : this.#options.ttlMs;
    const [rejected, pointed] = await Promise.all([
      this.#entries.store(entries, ttlMs, over),
      this.#point(entries),
    ]);
    return pointed ? rejected : undefined;
  }

  /** Points channel and registry ids at the entries that carry them. False when Redis did not take all of it. */
  async #point(entries: Entry[]): Promise<boolean> {
    const pointers: [string, string, number][] = [];
    for (const { id, channelId, registryId, bytes } of entries) {
      // as long as the entry, so that one load brings both back
      const ttlMs = lifetimeMs(this.#options.ttlMs, bytes.readUInt32LE(0));
      if (channelId !== null)
        pointers.push([this.prefixOf('channel') + channelId, POINTER_PREFIX + id, ttlMs]);
      if (registryId !== null)
        pointers.push([this.prefixOf('registry') + registryId, POINTER_PREFIX + id, ttlMs]);
    }
    return pointers.length === 0 || (await this.#redis.setMany(pointers, false)) !== undefined;
  }

  /**
   * Puts tombstones in the place of what is older. Their channel and registry ids (not null) are forgotten, as
   * nobody may have carried them before. Returns as `fill` does.
   */
  async storeTombstones(
    tombstones: Entry[],
    carried: { channel: string[]; registry: string[] },
  ): Promise<Standing | undefined> {
    const [rejected, channel, registry] = await Promise.all([
      this.fill(tombstones),
      this.removePointers('channel', carried.channel),
      this.removePointers('registry', carried.registry),
    ]);
    return channel && registry ? rejected : undefined;
  }

  /** Some of the ids that Redis holds something under, and the cursor for the next; undefined: it does not answer. */
  walk(cursor: string): Promise<[cursor: string, ids: string[]] | undefined> {
    return this.#entries.walk(cursor);
  }

  /** Remembers for a short time that no hotel carries these keys, unless Redis has heard otherwise meanwhile. */
  async rememberAbsent(namespace: Namespace, keys: string[]): Promise<void> {
    const lifetime = () => lifetimeMs(this.#options.absentTtlMs, 2 ** 32 * Math.random());
    if (namespace === 'id') {
      await this.#entries.storeIfNone(keys.map((id) => [encodeAbsence(id, 0), lifetime()]));
      return;
    }
    const start = this.prefixOf(namespace);
    const values = keys.map((key): [string, string, number] => [start + key, NO_HOTEL, lifetime()]);
    await this.#redis.setMany(values, true);
  }
}
