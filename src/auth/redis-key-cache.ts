import { createHmac, timingSafeEqual } from 'node:crypto';
import { lifetimeMs } from '../lib/lifetime.ts';
import { MAX_ABSENCE_MS } from '../log/freshness.ts';
import type { RedisCacheOptions, RedisStore } from '../redis/store.ts';
import type { Principal } from './principal.ts';

/** The rights of a key with the label of their read; null: the key was unknown. */
export interface LabelledKey {
  label: number;
  principal: Principal | null;
}

/** Each format has its own name, so that no release reads a value of another format. */
const FORMAT = 'HEK7';
/** More than any key takes: its longest part is the id of its collection, of at most 255 characters. */
const MAX_KEY_VALUE_BYTES = 4_096;
const SECRET_BYTES = 32;
/** Bytes of an authentication code: truncated HMAC-SHA-256. */
const MAC_BYTES = 16;

/**
 * Caches keys in Redis under `<prefix>:k:<sha256>`, signed with the secret of the database's history. Only the serving role can
 * read that.
 */
export class RedisKeyCache {
  readonly #redis: RedisStore;
  readonly #options: RedisCacheOptions;
  readonly #secret: () => Uint8Array;

  constructor(redis: RedisStore, options: RedisCacheOptions, secret: () => Uint8Array) {
    this.#redis = redis;
    this.#options = options;
    this.#secret = secret;
  }

  /** Reads the key with this sha256; undefined if Redis does not hold it, or holds an invalid value. */
  async read(sha256: string): Promise<LabelledKey | undefined> {
    const name = this.#nameOf(sha256);
    const value = await this.#redis.read(name);
    // the label of the former history means nothing in the window of another
    if (!value || this.#nameOf(sha256) !== name) return undefined;
    const key = decodeKey(name, value, this.#secret());
    if (!key) this.#options.onInvalidValue();
    return key;
  }

  /** Stores a key, or for a short time that there is none with this sha256. */
  async fill(sha256: string, key: LabelledKey): Promise<void> {
    // a worker may serve before it follows a history
    if (this.#secret().length === 0) return;
    const name = this.#nameOf(sha256);
    const ttlMs = lifetimeMs(key.principal ? this.#options.ttlMs : MAX_ABSENCE_MS);
    await this.#redis.setMany([[name, encodeKey(name, key, this.#secret()), ttlMs]]);
  }

  #nameOf(sha256: string): string {
    return `${this.#options.prefix()}:k:${sha256}`;
  }
}

/**
 * A key as Redis holds it: 16 bytes of authentication code, then the key with its label as JSON. The code covers the format, the JSON,
 * and `name`, under which the value is stored (a prefix and the sha256 of the key). A client with write access to Redis therefore
 * cannot create a key, or make an older state of it newer.
 */
export function encodeKey(name: string, key: LabelledKey, secret: Uint8Array): Buffer {
  const json = Buffer.from(JSON.stringify(key));
  return Buffer.concat([macOf(name, json, secret), json]);
}

/** Decodes a value that Redis returned for `name`; undefined if it is corrupt, or not written there by the service. */
export function decodeKey(name: string, bytes: Buffer, secret: Uint8Array): LabelledKey | undefined {
  if (bytes.length < MAC_BYTES || bytes.length > MAX_KEY_VALUE_BYTES) return undefined;
  const json = bytes.subarray(MAC_BYTES);
  if (!timingSafeEqual(bytes.subarray(0, MAC_BYTES), macOf(name, json, secret))) return undefined;
  return JSON.parse(json.toString());
}

/** Returns the code of a value. Its input contains the length of the name, so that no byte moves from one part to another. */
function macOf(name: string, json: Buffer, secret: Uint8Array): Buffer {
  // with an empty secret, any client could sign
  if (secret.length !== SECRET_BYTES) throw new Error(`the secret has ${secret.length} bytes`);
  const signed = `${FORMAT} ${name.length}:${name}${json.toString('latin1')}`;
  return createHmac('sha256', secret).update(signed).digest().subarray(0, MAC_BYTES);
}
