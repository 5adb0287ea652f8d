import { BufferPool } from '../../lib/buffer-pool.ts';
import { HASH_SEED } from '../../wasm/load.ts';
import { instantiate, type RedisBatchWasm } from '../../wasm/redis-batch.ts';
import type { Ids } from '../arena/batch-lookup.ts';
import { AddressSpace } from './address-space.ts';

/** End of src/wasm/assembly/redis-batch/layout.ts. A page becomes resident when it is used. */
const MEMORY_BYTES = 0x8701000;
/** The first bytes for hits contain the bracket of a response without any. */
const BRACKET_BYTES = 64;
const OPEN = 0x5b;
const COMMA = 0x2c;

/** Takes the address of an entry in the memory, and its length. */
export type KeepEntry = (address: number, length: number) => void;

/** Memory shared by the steps of a batch, and the buffers copied out of it between them. */
export class RedisBatchMemory {
  readonly wasm: RedisBatchWasm;
  readonly bytes: Buffer;
  readonly words: Uint32Array;
  /** takes the entries of the reply that is read, if the local cache may store them; the bytes are valid during the call */
  keep: KeepEntry | undefined;
  /** ids of the hotels that the present batch may return */
  visible: Ids | undefined;
  /** space for a reply with pointers */
  readonly pointers: Buffer;
  /** cells of the window (log/window.ts) with which entries and absences are compared */
  readonly window: Float64Array;
  /** for copies. A batch of 1000 has commands and tables of 30 to 60 kB; at most 8 MiB of each size are kept */
  readonly pool = new BufferPool([16 * 1024, 64 * 1024, 256 * 1024], 8 * 1024 * 1024);
  /** for the hits of the local cache in batches that wait for Redis */
  readonly #hits: AddressSpace;

  constructor() {
    const { wasm, memory } = instantiate(MEMORY_BYTES, {
      requests: { isVisible: (low, high) => Number(this.visible!.hasHash(low >>> 0, high >>> 0)) },
      stream: {
        keepEntry: (address, length) => this.keep!(address, length),
      },
    });
    wasm.init(...HASH_SEED);
    this.wasm = wasm;
    this.bytes = Buffer.from(memory.buffer);
    this.words = new Uint32Array(memory.buffer);
    this.pointers = this.#part(wasm.POINTERS.value, wasm.POINTERS_BYTES.value);
    this.window = new Float64Array(memory.buffer, wasm.WINDOW.value, wasm.WINDOW_BUCKETS.value + 1);
    const { HITS, HITS_BYTES } = wasm;
    this.bytes[HITS.value] = OPEN;
    this.#hits = new AddressSpace(HITS.value + BRACKET_BYTES, HITS.value + HITS_BYTES.value);
  }

  /** Returns the i-th result of the last call beside its return value. */
  result(i: number): number {
    return this.words[this.wasm.RESULT.value / 4 + i]!;
  }

  /** Writes the key prefix of the next command; returns its length in bytes. */
  writePrefix(prefix: string): number {
    return this.bytes.write(prefix, this.wasm.PREFIX.value, 'latin1');
  }

  /** Returns a copy of the command. */
  takeCommand(): Buffer {
    return this.pool.copy(this.#part(this.wasm.COMMAND.value, this.result(0)));
  }

  /** Returns a copy of the table. */
  takePending(): Buffer {
    return this.pool.copy(this.#part(this.wasm.SCRATCH.value, this.result(1)));
  }

  /**
   * Copies the array of the hits of the local cache into the memory, with a comma in place of its last bracket. Returns
   * undefined if too many batches wait.
   */
  takeHits(output: Uint8Array): Buffer | undefined {
    const start = this.#hits.take(output.length);
    if (start === undefined) return undefined;
    const hits = this.#part(start, output.length);
    hits.set(output);
    hits[hits.length - 1] = COMMA;
    return hits;
  }

  releaseHits(hits: Buffer): void {
    if (hits.buffer === this.bytes.buffer) this.#hits.release(hits.byteOffset);
  }

  #part(start: number, length: number): Buffer {
    return this.bytes.subarray(start, start + length);
  }
}
