import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** WebAssembly memory. `grow` takes pages of 64 KiB and replaces `buffer`. */
export interface Memory {
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}

// Node provides it, but only the DOM's type package declares it.
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: object };
  Memory: new (pages: { initial: number; maximum?: number }) => Memory;
};

export const PAGE_BYTES = 65_536;

/** Number exported by a module; AssemblyScript exports it as a global. */
export interface Global {
  readonly value: number;
}

/**
 * Compiles a module once. Returns a function that creates an instance with its own zeroed memory of at least `bytes`. A
 * page becomes resident when it is written.
 */
export function compileModule<Exports>(file: URL): (bytes: number) => { wasm: Exports; memory: Memory } {
  const module = new WebAssembly.Module(readFileSync(file));
  return (bytes) => {
    const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE_BYTES) });
    const { exports } = new WebAssembly.Instance(module, { env: { memory } });
    return { wasm: exports as Exports, memory };
  };
}

/** Environment variable with `HASH_SEED_HEX`, which the primary process sets for its workers. */
export const HASH_SEED_VARIABLE = 'HOTEL_API_HASH_SEED';
const SEED_BYTES = 32;

/** Seed in hexadecimal digits: that of the primary process, else random. */
export const HASH_SEED_HEX = process.env[HASH_SEED_VARIABLE] ?? randomBytes(SEED_BYTES).toString('hex');
const seedBytes = Buffer.from(HASH_SEED_HEX, 'hex');
if (seedBytes.length !== SEED_BYTES || HASH_SEED_HEX.length !== 2 * SEED_BYTES)
  throw new Error(`${HASH_SEED_VARIABLE} must be ${2 * SEED_BYTES} hexadecimal digits`);

/**
 * Seed of the hash of all modules, random for each start of the service, so that clients cannot choose keys that collide. It
 * is the same in all its processes, which hand each other tables by hash (log/window.ts).
 */
export const HASH_SEED = [0, 8, 16, 24].map((at) => seedBytes.readBigUInt64LE(at)) as [
  a: bigint,
  b: bigint,
  c: bigint,
  d: bigint,
];
