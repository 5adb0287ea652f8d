import { BufferPool } from '../../lib/buffer-pool.ts';
import { instantiate, type RedisBatchWasm } from '../../wasm/redis-batch.ts';

/** Up to the end of assembly/layout.ts; no page of it is resident before it is used. */
const MEMORY_BYTES = 0x4500000;

/** The memory that the steps of a batch share, and what is taken out of it between them. */
export class RedisBatchMemory {
  readonly wasm: RedisBatchWasm;
  readonly bytes: Buffer;
  readonly words: Uint32Array;
  /** where a reply with pointers is read */
  readonly pointers: Buffer;
  /** commands and tables of batches of 1000 take 30 to 60 kB */
  readonly #pool = new BufferPool([16 * 1024, 64 * 1024, 256 * 1024], 4 * 1024 * 1024);

  constructor() {
    const { wasm, memory } = instantiate(MEMORY_BYTES);
    this.wasm = wasm;
    this.bytes = Buffer.from(memory.buffer);
    this.words = new Uint32Array(memory.buffer);
    this.pointers = this.#part(wasm.POINTERS.value, wasm.POINTERS_BYTES.value);
  }

  /** A number that the last call has to say beside its return value. */
  result(i: number): number {
    return this.words[this.wasm.RESULT.value / 4 + i]!;
  }

  /** Puts what stands before every key of the next command in its place; returns its length. */
  writePrefix(prefix: string): number {
    return this.bytes.write(prefix, this.wasm.PREFIX.value, 'latin1');
  }

  /** A copy of the command that was written. */
  takeCommand(): Buffer {
    return this.#pool.copy(this.#part(this.wasm.COMMAND.value, this.result(0)));
  }

  /** A copy of the table that was written. */
  takeWanted(): Buffer {
    return this.#pool.copy(this.#part(this.wasm.SCRATCH.value, this.result(1)));
  }

  /** Takes back what was taken out. Nobody may look at it afterwards. */
  giveBack(taken: Buffer): void {
    this.#pool.giveBack(taken);
  }

  #part(start: number, length: number): Buffer {
    return this.bytes.subarray(start, start + length);
  }
}
