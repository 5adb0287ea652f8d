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

const PAGE_BYTES = 65_536;

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
