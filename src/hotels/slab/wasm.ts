import { readFileSync } from 'node:fs';

interface Memory {
  readonly buffer: ArrayBuffer;
}

/** What assembly/slab.ts exports; addresses are in bytes, times in epoch ms. */
export interface SlabWasm {
  readonly RESULT: { readonly value: number };
  readonly INPUT: { readonly value: number };
  readonly INPUT_BYTES: { readonly value: number };
  readonly ELEMENTS: { readonly value: number };
  readonly GAPS: { readonly value: number };
  readonly outputStart: { readonly value: number };
  init(maxBytes: number, outputBytes: number, a: bigint, b: bigint, c: bigint, d: bigint): void;
  maxEntryBytes(): number;
  put(length: number, nowMs: number, softUntilMs: number): number;
  putAbsent(namespace: number, length: number, nowMs: number, untilMs: number): void;
  find(namespace: number, length: number, nowMs: number, minStoredAtMs: number): number;
  drop(namespace: number, length: number): void;
  narrow(ref: number): void;
  gatherBody(length: number, namespace: number, isFull: number, nowMs: number, minStoredAtMs: number): number;
  gatherElements(
    count: number,
    namespace: number,
    isFull: number,
    nowMs: number,
    minStoredAtMs: number,
  ): number;
  clear(): void;
  stats(): void;
}

// Node has it, but no type package but the DOM's declares it.
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: object };
  Memory: new (pages: { initial: number; maximum: number }) => Memory;
};

const PAGE_BYTES = 65_536;
const module = new WebAssembly.Module(readFileSync(new URL('./slab.wasm', import.meta.url)));

/** An instance with a memory of its own, of at least `bytes`, all zero; no page is resident before it is written. */
export function instantiate(bytes: number): { wasm: SlabWasm; memory: ArrayBuffer } {
  const pages = Math.ceil(bytes / PAGE_BYTES);
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  return { wasm: exports as SlabWasm, memory: memory.buffer };
}
