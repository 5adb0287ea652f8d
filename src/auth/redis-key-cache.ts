import type { MacSecret } from '../lib/mac.ts';
import type { RedisStore } from '../redis/store.ts';
import {
  type Codec,
  type NewerVersionsByKey,
  type RedisCacheOptions,
  VersionedValues,
} from '../redis/versioned-values.ts';
import { decodeKey, encodeKey, type VersionedKey } from './key-record.ts';

type RedisKeyValues = [sha256: string, key: VersionedKey];

const codecBy = (secret: MacSecret): Codec<RedisKeyValues> => ({
  letter: 'k:',
  keyOf: ([sha256]) => sha256,
  encode: ([sha256, key], prefix) => encodeKey(prefix + sha256, key, secret),
  decode: (sha256, bytes, start, end, prefix) => {
    const key = decodeKey(prefix + sha256, bytes.subarray(start, end), secret);
    return key && [sha256, key];
  },
});

/** Caches keys in Redis under `<generation>:k:<sha256>`, signed with the secret of the database. */
export class RedisKeyCache {
  readonly #values: VersionedValues<RedisKeyValues>;
  readonly #absentTtlMs: number;

  constructor(redis: RedisStore, options: RedisCacheOptions, secret: MacSecret) {
    this.#values = new VersionedValues(redis, codecBy(secret), options);
    this.#absentTtlMs = options.absentTtlMs;
  }

  /** Selects the generation whose keys are read and written. */
  useGeneration(generation: string): void {
    this.#values.useGeneration(generation);
  }

  /** Reads the key with this sha256; undefined if Redis does not hold it. */
  async read(sha256: string): Promise<VersionedKey | undefined> {
    return (await this.readMany([sha256]))[0];
  }

  /** Reads several keys with one command. */
  async readMany(sha256s: string[]): Promise<(VersionedKey | undefined)[]> {
    return (await this.#values.read(sha256s)).map((found) => found?.[1]);
  }

  /**
   * Stores keys unless Redis holds newer versions. `over` names by sha256 the wrong versions to be replaced. Returns
   * the rejected keys, or undefined if a command failed.
   */
  fill(keys: RedisKeyValues[], over?: NewerVersionsByKey): Promise<NewerVersionsByKey | undefined> {
    return this.#values.store(keys, undefined, over);
  }

  /** Returns some of the keys in Redis as sha256, and the next cursor; undefined if Redis does not respond. */
  scan(cursor: string): Promise<[cursor: string, sha256s: string[]] | undefined> {
    return this.#values.scan(cursor);
  }

  /** Caches for a short time that the key is unknown, unless Redis has a newer state. */
  rememberUnknown(sha256: string): Promise<void> {
    return this.#values.storeIfNone([sha256, { version: 0, record: null }], this.#absentTtlMs);
  }
}
