import { MAGIC } from '../hotels/encode.ts';
import { BufferPool } from '../lib/buffer-pool.ts';
import { type CacheWasm, openCache } from '../wasm/cache.ts';
import { WINDOW_BUCKETS } from '../wasm/constants.ts';
import * as fields from '../wasm/fields.ts';

const MIN_BYTES = 1024 ** 2;
const MAX_BYTES = 3.5 * 1024 ** 3;
/** Share of the budget for the output, in addition to it, and its maximum: larger responses are read in parts. */
const OUTPUT_SHARE = 1 / 8;
export const MAX_OUTPUT_BYTES = 4 * 1024 ** 2;

/** Ids of hotels, of all three kinds, by their hashes (wasm/assembly/hash.ts). */
export interface Ids {
  /** Takes both halves of the hash as u32. */
  hasHash(low: number, high: number): boolean;
}

/**
 * Memory of the program of the caches (src/wasm/assembly/cache.ts): the local cache, the window, and what the batches of a
 * worker need. A page becomes resident when it is written.
 */
export class CacheMemory {
  readonly wasm: CacheWasm;
  readonly maxBytes: number;
  readonly outputBytes: number;
  readonly buffer: ArrayBuffer;
  readonly bytes: Buffer;
  readonly words: Uint32Array;
  /** cells of the window (log/window.ts) with which entries from Redis are compared */
  readonly window: Float64Array;
  /** space for a reply of Redis */
  readonly reply: Buffer;
  /**
   * For copies. A batch of 1000 has commands and tables of 30 to 60 kB, and hits of up to 1 MB; at most 8 MiB of each size are
   * kept.
   */
  readonly pool = new BufferPool([16 * 1024, 64 * 1024, 256 * 1024, 1024 ** 2], 8 * 1024 ** 2);

  /**
   * Takes the budget of the local cache: 0, or 1 MiB to 3.5 GiB. It bounds its resident memory: entries, keys, index, ghosts,
   * and responses of up to 1/64 of it. Larger responses add to it, at most an eighth of it or 4 MiB.
   */
  constructor(maxBytes: number) {
    if (maxBytes !== 0 && !(maxBytes >= MIN_BYTES && maxBytes <= MAX_BYTES))
      throw new RangeError(`the size of an arena is 1 MiB to 3.5 GiB, not ${maxBytes} bytes`);
    this.maxBytes = maxBytes;
    this.outputBytes = Math.min(Math.floor(Math.max(maxBytes, MIN_BYTES) * OUTPUT_SHARE), MAX_OUTPUT_BYTES);
    const { wasm, memory } = openCache(maxBytes, this.outputBytes);
    const { buffer } = memory;
    this.wasm = wasm;
    wasm.setMagic(MAGIC);
    this.buffer = buffer;
    this.bytes = Buffer.from(buffer);
    this.words = new Uint32Array(buffer);
    this.reply = this.#part(wasm.REPLY.value, wasm.REPLY_BYTES.value);
    this.window = new Float64Array(buffer, wasm.WINDOW.value, WINDOW_BUCKETS + 1);
  }

  /** Returns a result of the last call beside its return value, by its offset in wasm/fields.ts. */
  result(at: number): number {
    return this.words[(this.wasm.RESULT.value + at) / 4]!;
  }

  /** Writes the key prefix of the next command; returns its length in bytes. */
  writePrefix(prefix: string): number {
    return this.bytes.write(prefix, this.wasm.PREFIX.value, 'latin1');
  }

  /** Returns a copy of the command. */
  takeCommand(): Buffer {
    return this.pool.copy(this.#part(this.wasm.COMMAND.value, this.result(fields.COMMAND_LENGTH)));
  }

  /** Returns a copy of the table. */
  takePending(): Buffer {
    return this.pool.copy(this.#part(this.wasm.SCRATCH.value, this.result(fields.TABLE_LENGTH)));
  }

  #part(start: number, length: number): Buffer {
    return this.bytes.subarray(start, start + length);
  }
}
