/** Bytes of a string beside its characters, with its place in an array. */
const STRING_BYTES = 40;
const BYTES_PER_UNIT = 2;

/** Cache of the ids of stretches within a budget of bytes; the least recently read are evicted. */
export class IdBlocks<Stretch> {
  readonly #maxBytes: number;
  /** in the order of their last read */
  readonly #blocks = new Map<Stretch, { ids: readonly string[]; bytes: number }>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(stretch: Stretch): readonly string[] | undefined {
    const block = this.#blocks.get(stretch);
    if (!block) return undefined;
    this.#blocks.delete(stretch);
    this.#blocks.set(stretch, block);
    return block.ids;
  }

  put(stretch: Stretch, ids: readonly string[]): void {
    this.drop(stretch);
    let bytes = STRING_BYTES;
    for (const { length } of ids) bytes += STRING_BYTES + BYTES_PER_UNIT * length;
    if (bytes > this.#maxBytes) return;
    this.#bytes += bytes;
    this.#blocks.set(stretch, { ids, bytes });
    for (const oldest of this.#blocks.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.drop(oldest);
    }
  }

  drop(stretch: Stretch): void {
    this.#bytes -= this.#blocks.get(stretch)?.bytes ?? 0;
    this.#blocks.delete(stretch);
  }

  clear(): void {
    this.#blocks.clear();
    this.#bytes = 0;
  }
}
