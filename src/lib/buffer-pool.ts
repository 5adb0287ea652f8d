/** Below this share of the smallest buffer, a copy gets its own memory: Node allocates small buffers cheaply. */
const MIN_SHARE = 1 / 4;

/**
 * Buffers that are reused. Allocating outside the heap costs V8 more than the copying: every 64 MB
 * of such allocations start a mark of the whole heap.
 */
export class BufferPool {
  readonly #sizes: readonly number[];
  readonly #maxFreeBytes: number;
  /** unused buffers, by size */
  readonly #free = new Map<number, Buffer[]>();
  readonly #own = new WeakSet<ArrayBufferLike>();

  /** Takes the buffer sizes in bytes, ascending, and the number of unused bytes to keep of each size. */
  constructor(sizes: readonly number[], maxFreeBytes: number) {
    this.#sizes = sizes;
    this.#maxFreeBytes = maxFreeBytes;
    for (const size of sizes) this.#free.set(size, []);
  }

  /** Returns a copy of the bytes. */
  copy(bytes: Uint8Array): Buffer {
    const buffer = this.take(bytes.length);
    buffer.set(bytes);
    return buffer;
  }

  /** Returns memory of this length. If it is larger than every buffer, or much smaller, it is not reused. */
  take(length: number): Buffer {
    const size =
      length < MIN_SHARE * this.#sizes[0]! ? undefined : this.#sizes.find((holds) => holds >= length);
    if (size === undefined) return Buffer.allocUnsafe(length);
    return (this.#free.get(size)!.pop() ?? this.#allocate(size)).subarray(0, length);
  }

  /** Takes back a result of `copy` or `take`, which must not be read afterwards. A result that is never returned is garbage-collected. */
  release({ buffer }: Buffer): void {
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
