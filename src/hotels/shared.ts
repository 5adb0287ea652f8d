import { lifetimeMs } from '../stores/lifetime.ts';
import type { SharedStore } from '../stores/shared-store.ts';
import { encodeAbsence } from './encode.ts';
import { type Entry, readEntry } from './entry.ts';
import { LETTER, type Namespace } from './namespace.ts';

/** What a pointer begins with; behind it stands the hotel's id. */
const TO = '>';
const TO_BYTE = 0x3e;
/** What stands in a pointer's place when no hotel carries the id. */
const NOBODY = '-';
const NOBODY_BYTE = 0x2d;
/** Half of it is longer than any load takes that began before the change: after it nothing older can come. */
const WITHDRAWN_TTL_MS = 120_000;
/** Keys removed by one command. */
const REMOVE_COUNT = 1_000;
/** Keys that one step of a walk through Redis looks at. */
const SCAN_COUNT = 1_000;

/**
 * Hotels in Redis: entries under `<generation>h:<hotel id>`, and pointers from channel ids and registry ids to
 * hotel ids under `<generation>c:…` and `<generation>r:…`. An entry carries its own channel id and registry id,
 * so a pointer that is out of date shows itself.
 */
export class SharedCache {
  readonly #redis: SharedStore;
  readonly #ttlMs: number;
  readonly #absentTtlMs: number;
  readonly #onPoison: () => void;
  #prefix = '';

  constructor(redis: SharedStore, options: { ttlMs: number; absentTtlMs: number; onPoison: () => void }) {
    this.#redis = redis;
    this.#ttlMs = options.ttlMs;
    this.#absentTtlMs = options.absentTtlMs;
    this.#onPoison = options.onPoison;
  }

  /** From now on only keys of this generation are read and written. */
  useGeneration(generation: string): void {
    this.#prefix = `${generation}:`;
  }

  /** What stands in Redis before the keys of a namespace. */
  prefixOf(namespace: Namespace): string {
    return this.#prefix + LETTER[namespace];
  }

  /** For each key the hotel id, null when no hotel carries it, undefined when Redis does not know. */
  async pointers(namespace: 'channel' | 'registry', keys: string[]): Promise<(string | null | undefined)[]> {
    const values = await this.#redis.readMany(keys, this.prefixOf(namespace));
    if (values === undefined) return new Array(keys.length).fill(undefined);
    const unsound: string[] = [];
    const { bytes } = values;
    const ids = keys.map((key, i) => {
      if (values.isNull(i)) return undefined;
      const [start, end] = [values.start(i), values.end(i)];
      if (bytes[start] === TO_BYTE) return bytes.toString('utf8', start + 1, end);
      if (bytes[start] === NOBODY_BYTE && end === start + 1) return null;
      this.#onPoison();
      unsound.push(key);
      return undefined;
    });
    if (unsound.length > 0) this.removePointers(namespace, unsound);
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
    for (const [i, entry] of held.entries()) if (entry?.withdrawn) held[i] = undefined;
    return held;
  }

  /** The same, with withdrawals as they stand. */
  async held(ids: string[]): Promise<(Entry | undefined)[]> {
    const prefix = this.prefixOf('id');
    const values = await this.#redis.readMany(ids, prefix);
    if (values === undefined) return new Array(ids.length).fill(undefined);
    const unsound: string[] = [];
    const entries = ids.map((id, i) => {
      if (values.isNull(i)) return undefined;
      const entry = readEntry(values.bytes, values.start(i), values.end(i));
      if (entry?.isOf('id', id)) return entry;
      this.#onPoison();
      unsound.push(prefix + id);
      return undefined;
    });
    // it goes before the right one comes: it might claim a version that none exceeds
    if (unsound.length > 0) this.#redis.remove(unsound);
    return entries;
  }

  /**
   * Stores entries unless Redis holds a newer version, and points their channel and registry ids at them.
   * Returns the ids of those that were refused; undefined when Redis did not take all of it.
   */
  async fill(entries: Entry[]): Promise<string[] | undefined> {
    const pointers: [string, string, number][] = [];
    for (const { id, channelId, registryId, bytes } of entries) {
      // as long as the entry, so that one load brings both back
      const ttlMs = lifetimeMs(this.#ttlMs, bytes.readUInt32LE(0));
      if (channelId !== null) pointers.push([`${this.#prefix}c:${channelId}`, TO + id, ttlMs]);
      if (registryId !== null) pointers.push([`${this.#prefix}r:${registryId}`, TO + id, ttlMs]);
    }
    const [refused, pointed] = await Promise.all([
      this.#store(entries, this.#ttlMs),
      pointers.length === 0 ? true : this.#redis.setMany(pointers, false),
    ]);
    return pointed === true ? refused : undefined;
  }

  /**
   * Puts withdrawals in the place of what is older. Their channel and registry ids (not null) are forgotten, as
   * nobody may have carried them before. Returns as `fill` does.
   */
  async withdraw(
    withdrawals: Entry[],
    carried: { channel: string[]; registry: string[] },
  ): Promise<string[] | undefined> {
    const [refused, channel, registry] = await Promise.all([
      this.#store(withdrawals, WITHDRAWN_TTL_MS),
      this.removePointers('channel', carried.channel),
      this.removePointers('registry', carried.registry),
    ]);
    return channel && registry ? refused : undefined;
  }

  /** Stores entries whatever Redis holds: for when that was found to be wrong. False when it did not take them. */
  async replace(entries: Entry[]): Promise<boolean> {
    const removed = await this.#redis.remove(entries.map(({ id }) => this.prefixOf('id') + id));
    return removed !== undefined && (await this.fill(entries)) !== undefined;
  }

  /** Some of the ids that Redis holds something under, and the cursor for the next; undefined: it does not answer. */
  async walk(cursor: string): Promise<[cursor: string, ids: string[]] | undefined> {
    const start = this.prefixOf('id');
    const found = await this.#redis.scan(cursor, `${start}*`, SCAN_COUNT);
    return found && [found[0], found[1].map((name) => name.slice(start.length))];
  }

  async #store(entries: Entry[], ttlMs: number): Promise<string[] | undefined> {
    const values = entries.map(({ id, bytes }): [string, Buffer] => [this.prefixOf('id') + id, bytes]);
    const refused = await this.#redis.storeNewer(values, ttlMs);
    return refused?.map((place) => entries[place]!.id);
  }

  /**
   * Remembers for a short time that no hotel carries these keys, unless Redis has heard otherwise meanwhile.
   */
  async rememberAbsent(namespace: Namespace, keys: string[]): Promise<void> {
    const start = this.prefixOf(namespace);
    const values = keys.map((key): [string, string | Buffer, number] => [
      start + key,
      namespace === 'id' ? encodeAbsence(key, 0).bytes : NOBODY,
      lifetimeMs(this.#absentTtlMs, 2 ** 32 * Math.random()),
    ]);
    await this.#redis.setMany(values, true);
  }
}
