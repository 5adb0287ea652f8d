import type { Redis } from '../stores/redis.ts';
import { type Entry, encodeAbsence, readEntry } from './entry.ts';
import { LETTER, type Namespace } from './namespace.ts';

/** What a pointer begins with; behind it stands the hotel's id. */
const TO = '>';
/** What stands in a pointer's place when no hotel carries the id. */
const NOBODY = '-';

/**
 * Hotels in Redis: entries under `<generation>h:<hotel id>`, and pointers from channel ids and registry ids to
 * hotel ids under `<generation>c:…` and `<generation>r:…`. An entry carries its own channel id and registry id,
 * so a pointer that is out of date shows itself.
 */
export class SharedCache {
  readonly #redis: Redis;
  readonly #ttlMs: number;
  readonly #absentTtlMs: number;
  readonly #onPoison: () => void;
  #prefix = '';

  constructor(redis: Redis, options: { ttlMs: number; absentTtlMs: number; onPoison: () => void }) {
    this.#redis = redis;
    this.#ttlMs = options.ttlMs;
    this.#absentTtlMs = options.absentTtlMs;
    this.#onPoison = options.onPoison;
  }

  /** From now on only keys of this generation are read and written. */
  useGeneration(generation: string): void {
    this.#prefix = `${generation}:`;
  }

  /** For each key the hotel id, null when no hotel carries it, undefined when Redis does not know. */
  async pointers(namespace: 'channel' | 'registry', keys: string[]): Promise<(string | null | undefined)[]> {
    const start = this.#prefix + LETTER[namespace];
    const values = await this.#redis.readTexts(keys.map((key) => start + key));
    if (values === undefined) return new Array(keys.length);
    const unsound: string[] = [];
    const ids = values.map((value, i) => {
      if (value === null) return undefined;
      if (value.startsWith(TO)) return value.slice(TO.length);
      if (value === NOBODY) return null;
      this.#onPoison();
      unsound.push(keys[i]!);
      return undefined;
    });
    if (unsound.length > 0) this.removePointers(namespace, unsound);
    return ids;
  }

  /** Forgets where these keys point to: the hotel there does not carry them, or is not known. */
  async removePointers(namespace: 'channel' | 'registry', keys: string[]): Promise<void> {
    const start = this.#prefix + LETTER[namespace];
    await this.#redis.remove(keys.map((key) => start + key));
  }

  /**
   * For each id the entry (which may say that the hotel is absent) or undefined when Redis does not know.
   * What is damaged or belongs to another id counts as unknown. The entries view the reply: not to be kept.
   */
  async entries(ids: string[]): Promise<(Entry | undefined)[]> {
    const names = ids.map((id) => this.#prefix + LETTER.id + id);
    const values = await this.#redis.readMany(names);
    if (values === undefined) return new Array(ids.length);
    const unsound: string[] = [];
    const entries = values.map((value, i) => {
      if (value === null) return undefined;
      const entry = readEntry(value);
      if (entry?.id === ids[i]) return entry;
      this.#onPoison();
      unsound.push(names[i]!);
      return undefined;
    });
    // it goes before the right one comes: it might claim a version that none exceeds
    if (unsound.length > 0) this.#redis.remove(unsound);
    return entries;
  }

  /**
   * Stores entries unless Redis holds a newer version, and points their channel and registry ids at them.
   * Returns false when Redis did not take all of it.
   */
  async fill(entries: Entry[]): Promise<boolean> {
    const values: [string, Buffer][] = [];
    const pointers: [string, string][] = [];
    for (const entry of entries) {
      const { id, channelId, registryId } = entry;
      values.push([`${this.#prefix}h:${id}`, entry.bytes]);
      if (channelId !== null) pointers.push([`${this.#prefix}c:${channelId}`, TO + id]);
      if (registryId !== null) pointers.push([`${this.#prefix}r:${registryId}`, TO + id]);
    }
    const [stored, pointed] = await Promise.all([
      this.#redis.storeNewer(values, this.#ttlMs),
      pointers.length === 0 ? true : this.#redis.setMany(pointers, this.#ttlMs, false),
    ]);
    return stored !== undefined && pointed === true;
  }

  /**
   * Remembers for a short time that no hotel carries these keys, unless Redis has heard otherwise meanwhile.
   */
  async rememberAbsent(namespace: Namespace, keys: string[]): Promise<void> {
    const start = this.#prefix + LETTER[namespace];
    const values = keys.map((key): [string, string | Buffer] => [
      start + key,
      namespace === 'id' ? encodeAbsence(key, 0).bytes : NOBODY,
    ]);
    await this.#redis.setMany(values, this.#absentTtlMs, true);
  }
}
