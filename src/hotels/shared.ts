import type { Redis } from '../stores/redis.ts';
import { type Entry, encodeAbsence, readEntry } from './entry.ts';

/** By what a hotel is looked up. */
export type Namespace = 'id' | 'channel' | 'registry';

/** What the names of a namespace begin with, in Redis (after the generation) and among the recent changes. */
export const LETTER = { id: 'h:', channel: 'c:', registry: 'r:' } as const;
/** What a pointer holds when no hotel carries the id; a hotel id is never empty. */
const NOBODY = '';

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
  useGeneration(generation: number): void {
    this.#prefix = `${generation}:`;
  }

  /** For each key the hotel id, null when no hotel carries it, undefined when Redis does not know. */
  async pointers(namespace: 'channel' | 'registry', keys: string[]): Promise<(string | null | undefined)[]> {
    const start = this.#prefix + LETTER[namespace];
    const ids = await this.#redis.readTexts(keys.map((key) => start + key));
    if (ids === undefined) return new Array(keys.length);
    return ids.map((id) => (id === null ? undefined : id === NOBODY ? null : id));
  }

  /**
   * For each id the entry (which may say that the hotel is absent) or undefined when Redis does not know.
   * What is damaged or belongs to another id counts as unknown. The entries view the reply: not to be kept.
   */
  async entries(ids: string[]): Promise<(Entry | undefined)[]> {
    const start = this.#prefix + LETTER.id;
    const values = await this.#redis.readMany(ids.map((id) => start + id));
    if (values === undefined) return new Array(ids.length);
    return values.map((value, i) => {
      if (value === null) return undefined;
      const entry = readEntry(value);
      if (entry?.id === ids[i]) return entry;
      this.#onPoison();
      return undefined;
    });
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
      if (channelId !== null) pointers.push([`${this.#prefix}c:${channelId}`, id]);
      if (registryId !== null) pointers.push([`${this.#prefix}r:${registryId}`, id]);
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
