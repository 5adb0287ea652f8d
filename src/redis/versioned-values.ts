import type { RedisStore } from './store.ts';

/** Names that one step of a walk looks at. */
const SCAN_COUNT = 250;

/** How long values are shared, and who is told of those that are not sound. */
export interface RedisCacheOptions {
  /** at most */
  ttlMs: number;
  /** of what says that there is nothing; at most */
  absentTtlMs: number;
  onInvalidValue: () => void;
}

/** How values of one kind stand in Redis. */
export interface Codec<Value> {
  /** what their names begin with behind the generation */
  letter: string;
  keyOf(value: Value): string;
  /** With a head as `STORE_NEWER` reads it; `prefix` stands before the key in its name. */
  encode(value: Value, prefix: string): Buffer;
  /**
   * Reads the bytes from `start` to `end`, which may stay a view. Undefined for what is damaged, foreign or of another
   * key; null for what is of no use and no fault.
   */
  decode(key: string, bytes: Buffer, start: number, end: number, prefix: string): Value | null | undefined;
}

/** Newer versions that stand in the place of values that were to be stored, as text and by key. */
export type Standing = ReadonlyMap<string, string>;

/** Values that carry a version, in Redis under `<generation>:<letter><key>`. An older one never replaces a newer. */
export class VersionedValues<Value> {
  readonly #redis: RedisStore;
  readonly #codec: Codec<Value>;
  readonly #sharing: RedisCacheOptions;
  #prefix = '';

  constructor(redis: RedisStore, codec: Codec<Value>, sharing: RedisCacheOptions) {
    this.#redis = redis;
    this.#codec = codec;
    this.#sharing = sharing;
  }

  /** From now on only values of this generation are read and written. */
  useGeneration(generation: string): void {
    this.#prefix = `${generation}:${this.#codec.letter}`;
  }

  /** What stands under each key; undefined: nothing that is sound. Views the reply: not to be kept. */
  async read(keys: string[]): Promise<(Value | undefined)[]> {
    const prefix = this.#prefix;
    const found = await this.#redis.readMany(keys, prefix);
    if (found === undefined) return new Array(keys.length).fill(undefined);
    const invalid: string[] = [];
    const values = keys.map((key, i) => {
      if (found.isNull(i)) return undefined;
      const value = this.#codec.decode(key, found.bytes, found.start(i), found.end(i), prefix);
      if (value === undefined) invalid.push(prefix + key);
      return value ?? undefined;
    });
    for (const _ of invalid) this.#sharing.onInvalidValue();
    // it goes before the right one comes: it might claim a version that none exceeds
    if (invalid.length > 0) this.#redis.remove(invalid);
    return values;
  }

  /**
   * Stores values unless Redis holds newer ones. Those of `over` are replaced: by key, the version that was found to be
   * wrong. Returns what was refused; undefined when Redis did not take all of it.
   */
  async store(values: Value[], ttlMs = this.#sharing.ttlMs, over?: Standing): Promise<Standing | undefined> {
    const { keyOf, encode } = this.#codec;
    const rejected = await this.#redis.storeNewer(
      values.map((value) => {
        const key = keyOf(value);
        return [this.#prefix + key, encode(value, this.#prefix), over?.get(key)];
      }),
      ttlMs,
    );
    return rejected && new Map(rejected.map(([place, stands]) => [keyOf(values[place]!), stands]));
  }

  /** Some of the keys that Redis holds something under, and the cursor for the next; undefined: it does not answer. */
  async walk(cursor: string): Promise<[cursor: string, keys: string[]] | undefined> {
    const prefix = this.#prefix;
    const found = await this.#redis.scan(cursor, `${prefix}*`, SCAN_COUNT);
    return found && [found[0], found[1].map((name) => name.slice(prefix.length))];
  }

  /** Sets values for so long where Redis holds nothing. */
  async storeIfNone(values: [value: Value, ttlMs: number][]): Promise<void> {
    const { keyOf, encode } = this.#codec;
    await this.#redis.setMany(
      values.map(([value, ttlMs]) => [this.#prefix + keyOf(value), encode(value, this.#prefix), ttlMs]),
      true,
    );
  }
}
