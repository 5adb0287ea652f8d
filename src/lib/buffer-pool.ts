/** What is shorter than this share of the smallest buffer gets memory of its own: Node makes small buffers cheaply. */
const LEAST_SHARE = 1 / 4;

/**
 * Copies of bytes in buffers that are used again. Memory outside its heap costs V8 more than the copying: after every
 * 64 MB that were allocated there it marks its whole heap.
 */
export class BufferPool {
  readonly #sizes: readonly number[];
  readonly #maxFreeBytes: number;
  /** those that nobody uses, by their size */
  readonly #free = new Map<number, Buffer[]>();
  readonly #own = new WeakSet<ArrayBufferLike>();

  /** Has buffers of these sizes, ascending; keeps at most `maxFreeBytes` of each size that nobody uses. */
  constructor(sizes: readonly number[], maxFreeBytes: number) {
    this.#sizes = sizes;
    this.#maxFreeBytes = maxFreeBytes;
    for (const size of sizes) this.#free.set(size, []);
  }

  /** A copy of the bytes; what is larger than a buffer, or hardly fills one, gets memory of its own. */
  copy(bytes: Uint8Array): Buffer {
    const { length } = bytes;
    const size =
      length < LEAST_SHARE * this.#sizes[0]! ? undefined : this.#sizes.find((holds) => holds >= length);
    if (size === undefined) return Buffer.from(bytes);
    const buffer = this.#free.get(size)!.pop() ?? this.#allocate(size);
    buffer.set(bytes);
    return buffer.subarray(0, length);
  }

  /** Takes back what `copy` returned. Nobody may look at its bytes afterwards. Who forgets it only wastes it. */
  giveBack({ buffer }: Buffer): void {
    if (!this.#own.has(buffer)) return;
    const free = this.#free.get(buffer.byteLength)!;
    if ((free.length + 1) * buffer.byteLength <= this.#maxFreeBytes) free.push(Buffer.from(buffer));
  }

  #allocate(size: number): Buffer {
    const buffer = Buffer.allocUnsafeSlow(size);
    this.#own.add(buffer.buffer);
    return buffer;
  }
}
