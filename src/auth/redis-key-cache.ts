import type { MacSecret } from '../lib/mac.ts';
import type { RedisStore } from '../redis/store.ts';
import {
  type Codec,
  type RedisCacheOptions,
  type Standing,
  VersionedValues,
} from '../redis/versioned-values.ts';
import { decodeKey, encodeKey, isOfFormerRelease, type VersionedKey } from './key-record.ts';

type RedisKeyValues = [sha256: string, key: VersionedKey];

const codecBy = (secret: MacSecret): Codec<RedisKeyValues> => ({
  letter: 'k:',
  keyOf: ([sha256]) => sha256,
  encode: ([sha256, key], prefix) => encodeKey(prefix + sha256, key, secret),
  decode: (sha256, bytes, start, end, prefix) => {
    const value = bytes.subarray(start, end);
    const key = decodeKey(prefix + sha256, value, secret);
    if (key) return [sha256, key];
    return isOfFormerRelease(value) ? null : undefined;
  },
});

/** Keys in Redis, under `<generation>:k:<sha256>`, signed with the secret of the database. */
export class RedisKeyCache {
  readonly #values: VersionedValues<RedisKeyValues>;
  readonly #absentTtlMs: number;

  constructor(redis: RedisStore, sharing: RedisCacheOptions, secret: MacSecret) {
    this.#values = new VersionedValues(redis, codecBy(secret), sharing);
    this.#absentTtlMs = sharing.absentTtlMs;
  }

  /** From now on only keys of this generation are read and written. */
  useGeneration(generation: string): void {
    this.#values.useGeneration(generation);
  }

  /** What Redis knows of the key with this sha256; undefined: nothing. */
  async read(sha256: string): Promise<VersionedKey | undefined> {
    return (await this.held([sha256]))[0];
  }

  /** The same of several keys, asked for at once. */
  async held(sha256s: string[]): Promise<(VersionedKey | undefined)[]> {
    return (await this.#values.read(sha256s)).map((found) => found?.[1]);
  }

  /**
   * Stores keys unless Redis holds newer versions. Those of `over` are replaced: by sha256, the version that was found to
   * be wrong. Returns what was rejected; undefined when Redis did not take all of it.
   */
  fill(keys: RedisKeyValues[], over?: Standing): Promise<Standing | undefined> {
    return this.#values.store(keys, undefined, over);
  }

  /** Some of the keys that Redis holds, as sha256, and the cursor for the next; undefined: it does not answer. */
  walk(cursor: string): Promise<[cursor: string, sha256s: string[]] | undefined> {
    return this.#values.walk(cursor);
  }

  /** Remembers for a short time that this key is unknown, unless Redis has heard otherwise meanwhile. */
  rememberUnknown(sha256: string): Promise<void> {
    return this.#values.storeIfNone([[[sha256, { version: 0, record: null }], this.#absentTtlMs]]);
  }
}
