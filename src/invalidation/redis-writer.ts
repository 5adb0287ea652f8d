import type { SharedCache } from '../hotels/shared.ts';
import type { SharedKeys } from '../keys/shared.ts';
import type { Redis } from '../stores/redis.ts';
import type { Drained } from './drain.ts';

/** Under this name the active invalidator leaves a sign of life behind every write. */
const BEAT = 'beat';

/**
 * Writes changes to Redis and knows whether Redis still holds all that was written. Behind each write it leaves
 * a new sign of life, and finds the last one there: what Redis lost (restarted, restored, failed over to a
 * replica that was behind) was written before a sign that is lost too.
 */
export class RedisWriter {
  readonly #redis: Redis;
  readonly #hotels: SharedCache;
  readonly #keys: SharedKeys;
  readonly #beatKey: string;
  readonly #term: string;
  #beat: string | null;
  #count = 0;

  /** `database`: what tells its keys from those of others; `lastBeat`: the sign that the last invalidator left, as it told; null: unknown. */
  constructor(
    redis: Redis,
    hotels: SharedCache,
    keys: SharedKeys,
    database: string,
    term: string,
    lastBeat: string | null,
  ) {
    this.#redis = redis;
    this.#hotels = hotels;
    this.#keys = keys;
    this.#beatKey = `${database}:${BEAT}`;
    this.#term = term;
    this.#beat = lastBeat;
  }

  /** The last sign that was left; null when Redis may lack something. */
  get beat(): string | null {
    return this.#beat;
  }

  useGeneration(generation: string): void {
    this.#hotels.useGeneration(generation);
    this.#keys.useGeneration(generation);
  }

  /**
   * Writes what was drained (nothing, between changes). Returns why Redis is no longer to be trusted: its
   * values must then be given up; undefined: all is there.
   */
  async write({ entries, keys }: Pick<Drained, 'entries' | 'keys'>): Promise<string | undefined> {
    const taken = await Promise.all([
      entries.length > 0 ? this.#hotels.fill(entries) : true,
      keys.length > 0 ? this.#keys.fill(keys) : true,
    ]);
    const expected = this.#beat;
    const left = `${this.#term}:${++this.#count}`;
    const found = await this.#redis.exchange(this.#beatKey, left);
    const complete = taken.every(Boolean);
    this.#beat = complete && found !== undefined ? left : null;
    if (!complete) return 'it did not take a change';
    if (found === undefined) return expected === null ? undefined : 'it does not answer';
    if (expected === null) return 'it is not known what it missed';
    return found === expected ? undefined : 'it has lost what was written';
  }
}
