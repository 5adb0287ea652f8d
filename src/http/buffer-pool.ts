/**
 * Buffers of one size that are used again. Memory outside its heap costs V8 more than the copying: after every 64 MB
 * that were allocated there it marks its whole heap.
 */
export class BufferPool {
  readonly #bufferBytes: number;
  readonly #maxFree: number;
  readonly #free: Buffer[] = [];

  /** Keeps at most `maxFree` buffers of `bufferBytes` that nobody uses. */
  constructor(bufferBytes: number, maxFree: number) {
    this.#bufferBytes = bufferBytes;
    this.#maxFree = maxFree;
  }

  /** True for what fits a buffer. */
  holds(bytes: number): boolean {
    return bytes <= this.#bufferBytes;
  }

  /** A copy of the bytes; what is larger than a buffer gets memory of its own. */
  copy(bytes: Uint8Array): Buffer {
    if (!this.holds(bytes.length)) return Buffer.from(bytes);
    const buffer = this.#free.pop() ?? Buffer.allocUnsafeSlow(this.#bufferBytes);
    buffer.set(bytes);
    return buffer.subarray(0, bytes.length);
  }

  /** Takes back what `copy` returned. Nobody may look at its bytes afterwards. */
  giveBack(copy: Buffer): void {
    if (copy.buffer.byteLength === this.#bufferBytes && this.#free.length < this.#maxFree)
      this.#free.push(Buffer.from(copy.buffer));
  }
}
