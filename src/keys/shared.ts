import type { SharedStore } from '../stores/shared-store.ts';
import { decodeKey, encodeKey, isOfFormerRelease, type VersionedKey } from './record.ts';

/** Keys that one step of a walk through Redis looks at. */
const SCAN_COUNT = 1_000;

/** Keys in Redis, under `<generation>k:<sha256>`. */
export class SharedKeys {
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
    this.#prefix = `${generation}:k:`;
  }

  /** What Redis knows of the key with this sha256; undefined: nothing. */
  async read(sha256: string): Promise<VersionedKey | undefined> {
    return (await this.held([sha256]))[0];
  }

  /** The same of several keys, asked for at once. */
  async held(sha256s: string[]): Promise<(VersionedKey | undefined)[]> {
    const values = await this.#redis.readMany(sha256s, this.#prefix);
    return sha256s.map((sha256, i) => {
      const value = values?.value(i);
      if (!value) return undefined;
      const key = decodeKey(sha256, value);
      if (key || isOfFormerRelease(value)) return key;
      this.#onPoison();
      // it goes before the right one comes: it might claim a version that none exceeds
      this.#redis.remove([this.#prefix + sha256]);
      return undefined;
    });
  }

  /** Stores keys unless Redis holds newer versions. Returns false when Redis did not take all of it. */
  async fill(keys: [sha256: string, key: VersionedKey][]): Promise<boolean> {
    const values = keys.map(([sha256, key]): [string, Buffer] => [
      this.#prefix + sha256,
      encodeKey(sha256, key),
    ]);
    return (await this.#redis.storeNewer(values, this.#ttlMs)) !== undefined;
  }

  /** Stores keys whatever Redis holds: for when that was found to be wrong. False when it did not take them. */
  async replace(keys: [sha256: string, key: VersionedKey][]): Promise<boolean> {
    const removed = await this.#redis.remove(keys.map(([sha256]) => this.#prefix + sha256));
    return removed !== undefined && this.fill(keys);
  }

  /** Some of the keys that Redis holds, as sha256, and the cursor for the next; undefined: it does not answer. */
  async walk(cursor: string): Promise<[cursor: string, sha256s: string[]] | undefined> {
    const found = await this.#redis.scan(cursor, `${this.#prefix}*`, SCAN_COUNT);
    return found && [found[0], found[1].map((name) => name.slice(this.#prefix.length))];
  }

  /** Remembers for a short time that this key is unknown, unless Redis has heard otherwise meanwhile. */
  async rememberUnknown(sha256: string): Promise<void> {
    await this.#redis.setMany(
      [[this.#prefix + sha256, encodeKey(sha256, { version: 0, record: null }), this.#absentTtlMs]],
      true,
    );
  }
}
