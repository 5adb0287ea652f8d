import { instantiate, type RelayWasm } from './wasm.ts';

/** Up to the end of assembly/layout.ts; no page of it is resident before it is used. */
const MEMORY_BYTES = 0x4500000;

/** The memory that the steps of a batch share, and what is taken out of it between them. */
export class RelayMemory {
  readonly wasm: RelayWasm;
  readonly bytes: Buffer;
  readonly words: Uint32Array;

  constructor() {
    const { wasm, memory } = instantiate(MEMORY_BYTES);
    this.wasm = wasm;
    this.bytes = Buffer.from(memory.buffer);
    this.words = new Uint32Array(memory.buffer);
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
    const start = this.wasm.COMMAND.value;
    return Buffer.from(this.bytes.subarray(start, start + this.result(0)));
  }

  /** A copy of the table that was written. */
  takeWanted(): Buffer {
    const start = this.wasm.SCRATCH.value;
    return Buffer.from(this.bytes.subarray(start, start + this.result(1)));
  }
}
