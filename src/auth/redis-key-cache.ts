import type { MacSecret } from '../lib/mac.ts';
import { lifetimeMs, type RedisCacheOptions } from '../redis/lifetime.ts';
import type { RedisStore } from '../redis/store.ts';
import { decodeKey, encodeKey, type LabelledKey } from './key-record.ts';

/** Caches keys in Redis under `<prefix>:k:<sha256>`, signed with the secret of the database. */
export class RedisKeyCache {
  readonly #redis: RedisStore;
  readonly #options: RedisCacheOptions;
  readonly #secret: MacSecret;
  #prefix = '';

  constructor(redis: RedisStore, options: RedisCacheOptions, secret: MacSecret) {
    this.#redis = redis;
    this.#options = options;
    this.#secret = secret;
  }

  /** Sets the prefix of the names to read and write. Labels are comparable under one prefix only. */
  usePrefix(prefix: string): void {
    this.#prefix = `${prefix}:k:`;
  }

  /** Reads the key with this sha256; undefined if Redis does not hold it, or holds an invalid value. */
  async read(sha256: string): Promise<LabelledKey | undefined> {
    const prefix = this.#prefix;
    const value = await this.#redis.read(prefix + sha256);
    // the label of the former history means nothing in the window of another
    if (!value || this.#prefix !== prefix) return undefined;
    const key = decodeKey(prefix + sha256, value, this.#secret);
    if (!key) this.#options.onInvalidValue();
    return key;
  }

  /** Stores a key, or for a short time that there is none with this sha256. */
  async fill(sha256: string, key: LabelledKey): Promise<void> {
    const name = this.#prefix + sha256;
    const ttlMs = lifetimeMs(key.principal ? this.#options.ttlMs : this.#options.absentTtlMs);
    await this.#redis.setMany([[name, encodeKey(name, key, this.#secret), ttlMs]]);
  }
}
