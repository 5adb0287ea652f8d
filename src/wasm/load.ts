import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** A WebAssembly memory; `buffer` is another after `grow`, which takes pages of 64 KiB. */
export interface Memory {
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}

// Node has it, but no type package but the DOM's declares it.
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: object };
  Memory: new (pages: { initial: number; maximum?: number }) => Memory;
};

export const PAGE_BYTES = 65_536;

/** A number that a module exports: AssemblyScript makes a global of it. */
export interface Global {
  readonly value: number;
}

/**
 * Compiles a module once. The function returned makes an instance with a memory of its own, of at least `bytes`, all
 * zero; no page of it is resident before it is written.
 */
export function compileModule<Exports>(file: URL): (bytes: number) => { wasm: Exports; memory: Memory } {
  const module = new WebAssembly.Module(readFileSync(file));
  return (bytes) => {
    const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE_BYTES) });
    const { exports } = new WebAssembly.Instance(module, { env: { memory } });
    return { wasm: exports as Exports, memory };
  };
}

/** What a module's hash is seeded with: nobody outside can tell which keys meet in its tables. */
export function makeSeed(): [a: bigint, b: bigint, c: bigint, d: bigint] {
  const bytes = randomBytes(32);
  return [0, 8, 16, 24].map((at) => bytes.readBigUInt64LE(at)) as [bigint, bigint, bigint, bigint];
}
