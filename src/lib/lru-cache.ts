/** Cache within a budget of bytes. Beyond it the least recently used values are evicted. A value larger than the budget is not kept. */
export class LruCache<Key, Value> {
  readonly #maxBytes: number;
  readonly #bytesOf: (value: Value) => number;
  /** the least recently used first */
  readonly #values = new Map<Key, Value>();
  #bytes = 0;

  /** `bytesOf`: memory of a value, always the same. */
  constructor(maxBytes: number, bytesOf: (value: Value) => number) {
    this.#maxBytes = maxBytes;
    this.#bytesOf = bytesOf;
  }

  get(key: Key): Value | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    this.#values.delete(key);
    this.#values.set(key, value);
    return value;
  }

  put(key: Key, value: Value): void {
    this.drop(key);
    const bytes = this.#bytesOf(value);
    if (bytes > this.#maxBytes) return;
    this.#bytes += bytes;
    this.#values.set(key, value);
    for (const oldest of this.#values.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.drop(oldest);
    }
  }

  drop(key: Key): void {
    const value = this.#values.get(key);
    if (value === undefined) return;
    this.#bytes -= this.#bytesOf(value);
    this.#values.delete(key);
  }

  clear(): void {
    this.#values.clear();
    this.#bytes = 0;
  }
}
