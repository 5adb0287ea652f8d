/** Bytes of a string beside its characters, with its place in an array. */
const STRING_BYTES = 40;
const BYTES_PER_UNIT = 2;

/** Cache of the ids of segments within a budget of bytes; the least recently read are evicted. */
export class IdBlocks<Segment> {
  readonly #maxBytes: number;
  /** in the order of their last read */
  readonly #blocks = new Map<Segment, { ids: readonly string[]; bytes: number }>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(segment: Segment): readonly string[] | undefined {
    const block = this.#blocks.get(segment);
    if (!block) return undefined;
    this.#blocks.delete(segment);
    this.#blocks.set(segment, block);
    return block.ids;
  }

  put(segment: Segment, ids: readonly string[]): void {
    this.drop(segment);
    let bytes = STRING_BYTES;
    for (const { length } of ids) bytes += STRING_BYTES + BYTES_PER_UNIT * length;
    if (bytes > this.#maxBytes) return;
    this.#bytes += bytes;
    this.#blocks.set(segment, { ids, bytes });
    for (const oldest of this.#blocks.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.drop(oldest);
    }
  }

  drop(segment: Segment): void {
    this.#bytes -= this.#blocks.get(segment)?.bytes ?? 0;
    this.#blocks.delete(segment);
  }

  clear(): void {
    this.#blocks.clear();
    this.#bytes = 0;
  }
}
