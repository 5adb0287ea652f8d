import type { RedisStore } from './store.ts';

/** Lifetimes of shared values, and a callback for invalid ones. */
export interface RedisCacheOptions {
  /** maximum */
  ttlMs: number;
  /** maximum for values that state an absence */
  absentTtlMs: number;
  onInvalidValue: () => void;
}

/** Encoding of values of one kind. */
export interface Codec<Value> {
  /** letter of their keys after the generation */
  letter: string;
  keyOf(value: Value): string;
  /** Encodes with a head as `STORE_NEWER` reads it; `prefix` precedes the key in Redis. */
  encode(value: Value, prefix: string): Buffer;
  /**
   * Decodes the bytes from `start` to `end`, possibly as a view. Undefined for a corrupt or foreign value, or one of
   * another key.
   */
  decode(key: string, bytes: Buffer, start: number, end: number, prefix: string): Value | undefined;
}

/** Newer versions in Redis that rejected values, as text and by key. */
export type NewerVersionsByKey = ReadonlyMap<string, string>;

/** Stores versioned values in Redis under `<generation>:<letter><key>`. An older value never replaces a newer one. */
export class VersionedValues<Value> {
  readonly #redis: RedisStore;
  readonly #codec: Codec<Value>;
  readonly #options: RedisCacheOptions;
  #prefix = '';

  constructor(redis: RedisStore, codec: Codec<Value>, options: RedisCacheOptions) {
    this.#redis = redis;
    this.#codec = codec;
    this.#options = options;
  }

  /** Selects the generation whose values are read and written. */
  useGeneration(generation: string): void {
    this.#prefix = `${generation}:${this.#codec.letter}`;
  }

  /**
   * Reads the values of the keys; undefined for a missing or invalid one. The values view the reply and must not be
   * kept.
   */
  async read(keys: string[]): Promise<(Value | undefined)[]> {
    const prefix = this.#prefix;
    const found = await this.#redis.readMany(keys, prefix);
    if (found === undefined) return new Array(keys.length).fill(undefined);
    const invalid: string[] = [];
    const values = keys.map((key, i) => {
      if (found.isNull(i)) return undefined;
      const value = this.#codec.decode(key, found.bytes, found.start(i), found.end(i), prefix);
      if (value === undefined) invalid.push(prefix + key);
      return value;
    });
    for (const _ of invalid) this.#options.onInvalidValue();
    // it is removed before the valid one is stored, because it may claim any version
    if (invalid.length > 0) this.#redis.remove(invalid);
    return values;
  }

  /**
   * Stores values unless Redis holds newer ones. `over` names by key the wrong versions to be replaced. Returns the
   * rejected ones; undefined if Redis did not take all others.
   */
  async store(
    values: Value[],
    ttlMs = this.#options.ttlMs,
    over?: NewerVersionsByKey,
  ): Promise<NewerVersionsByKey | undefined> {
    const { keyOf, encode } = this.#codec;
    const rejected = await this.#redis.storeNewer(
      values.map((value) => {
        const key = keyOf(value);
        return [this.#prefix + key, encode(value, this.#prefix), over?.get(key)];
      }),
      ttlMs,
    );
    return rejected && new Map(rejected.map(([place, version]) => [keyOf(values[place]!), version]));
  }

  /** Returns some of the keys in Redis and the next cursor; undefined if Redis does not respond. */
  async scan(cursor: string): Promise<[cursor: string, keys: string[]] | undefined> {
    const prefix = this.#prefix;
    const found = await this.#redis.scan(cursor, `${prefix}*`);
    return found && [found[0], found[1].map((name) => name.slice(prefix.length))];
  }

  /** Sets a value with this lifetime if Redis holds none. */
  async storeIfNone(value: Value, ttlMs: number): Promise<void> {
    const { keyOf, encode } = this.#codec;
    await this.#redis.setMany([[this.#prefix + keyOf(value), encode(value, this.#prefix), ttlMs]], true);
  }
}

/**
 * Returns the lifetime of a value with this checksum, spread evenly between half of `maxMs` and all of it. Values
 * stored together would otherwise expire together; the load of PostgreSQL is at most 1.5 times the average.
 * The script `STORE_NEWER` computes the same.
 */
export function lifetimeMs(maxMs: number, checksum: number): number {
  return Math.floor(maxMs * (1 - checksum / 2 ** 33));
}
