import { lifetimeMs } from '../lib/lifetime.ts';
import { MAC_BYTES, type MacSecret } from '../lib/mac.ts';
import { MAX_ABSENCE_MS } from '../log/bounds.ts';
import type { RedisCacheOptions, RedisStore } from '../redis/store.ts';
import type { Principal } from './principal.ts';

/** The rights of a key with the label of their read; null: the key was unknown. */
export interface LabelledKey {
  label: number;
  principal: Principal | null;
}

/** HEK6. Each format has its own number, so that no release reads a value of another format. */
const KEY_MAGIC = 0x364b4548;
const KEY_LABEL_AT = 4;
const MAC_AT = 12;
const RIGHTS_AT = MAC_AT + MAC_BYTES;
/** More than any key takes: its longest part is the id of its collection, of at most 255 characters. */
const MAX_KEY_VALUE_BYTES = 4_096;

/** Caches keys in Redis under `<prefix>:k:<sha256>`, signed with the secret of the database. */
export class RedisKeyCache {
  readonly #redis: RedisStore;
  readonly #options: RedisCacheOptions;
  readonly #secret: MacSecret;

  constructor(redis: RedisStore, options: RedisCacheOptions, secret: MacSecret) {
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
    const key = decodeKey(name, value, this.#secret);
    if (!key) this.#options.onInvalidValue();
    return key;
  }

  /** Stores a key, or for a short time that there is none with this sha256. */
  async fill(sha256: string, key: LabelledKey): Promise<void> {
    const name = this.#nameOf(sha256);
    const ttlMs = lifetimeMs(key.principal ? this.#options.ttlMs : MAX_ABSENCE_MS);
    await this.#redis.setMany([[name, encodeKey(name, key, this.#secret), ttlMs]]);
  }

  #nameOf(sha256: string): string {
    return `${this.#options.prefix()}:k:${sha256}`;
  }
}

/**
 * A key as Redis holds it: u32 magic, f64 label, 16 bytes of authentication code, then the rights as JSON. The code covers
 * the magic, the label, the rights, and `name`, under which the value is stored (a prefix and the sha256 of the key). A
 * client with write access to Redis therefore cannot create a key, or make an older state of it newer.
 */
export function encodeKey(name: string, { label, principal }: LabelledKey, secret: MacSecret): Buffer {
  const json = JSON.stringify(principal);
  const bytes = Buffer.allocUnsafe(RIGHTS_AT + Buffer.byteLength(json));
  bytes.writeUInt32LE(KEY_MAGIC);
  bytes.writeDoubleLE(label, KEY_LABEL_AT);
  bytes.write(json, RIGHTS_AT);
  secret.mac(signed(name, bytes)).copy(bytes, MAC_AT);
  return bytes;
}

/** Decodes a value that Redis returned for `name`; undefined if it is corrupt, or not written there by the service. */
export function decodeKey(name: string, bytes: Buffer, secret: MacSecret): LabelledKey | undefined {
  if (bytes.length <= RIGHTS_AT || bytes.length > MAX_KEY_VALUE_BYTES) return undefined;
  if (bytes.readUInt32LE() !== KEY_MAGIC) return undefined;
  if (!secret.verifies(signed(name, bytes), bytes.subarray(MAC_AT, RIGHTS_AT))) return undefined;
  const principal = JSON.parse(bytes.toString('utf8', RIGHTS_AT));
  // JSON has no Infinity
  if (principal) principal.expiresAtMs ??= Infinity;
  return { label: bytes.readDoubleLE(KEY_LABEL_AT), principal };
}

/** Input of the code of a value. It contains the length of the name, so that no byte moves from one part to another. */
function signed(name: string, bytes: Buffer): string {
  return `${name.length}:${name}${bytes.toString('latin1', 0, MAC_AT)}${bytes.toString('latin1', RIGHTS_AT)}`;
}
