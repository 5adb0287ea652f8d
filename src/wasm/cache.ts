import { compileModule, type Global, HASH_SEED, type Memory, PAGE_BYTES } from './load.ts';

type Key = [namespace: number, key: number, length: number];
type Times = [nowMs: number, minStoredAtMs: number, wallMs: number];
type Numbers = 'entries' | 'absences' | 'evictions' | 'puts' | 'wrongIndex' | 'outputStart';
type Places = 'INPUT' | 'INPUT_BYTES' | 'ELEMENTS' | 'GAPS' | 'HASHES' | 'RESULT' | 'PREFIX' | 'PLACES';
type PlacesOfRedis = 'SCRATCH' | 'COMMAND' | 'REPLY' | 'REPLY_BYTES' | 'RESPONSE' | 'WINDOW';

/** Exports of assembly/cache.ts. Addresses and lengths are in bytes, times in milliseconds. */
export interface CacheWasm extends Readonly<Record<Numbers | Places | PlacesOfRedis, Global>> {
  init(maxBytes: number, outputBytes: number, a: bigint, b: bigint, c: bigint, d: bigint): number;
  setMagic(magic: number): void;
  maxEntryBytes(): number;
  putEntry(entry: number, length: number, nowMs: number, untilMs: number): number;
  putAbsence(...of: [...Key, nowMs: number, untilMs: number]): void;
  find(...of: [...Key, ...Times]): number;
  dropKey(...key: Key): void;
  dropSince(sinceMs: number): void;
  narrow(ref: number): void;
  findForm(ref: number, form: number): number;
  putForm(ref: number, form: number, length: number): void;
  readBody(length: number, namespace: number): number;
  hashKeys(count: number, namespace: number): void;
  gather(...of: [count: number, namespace: number, isFull: number, ...Times, hashesIds: number]): number;
  hashId(ref: number): void;
  hasRoom(): number;
  clear(): void;
  writtenBytes(): number;
  requestPointers(misses: number, namespace: number, prefixLength: number): number;
  requestEntries(count: number, length: number, namespace: number, prefixLength: number): number;
  takeEntries(
    count: number,
    namespace: number,
    view: number,
    wallMs: number,
    hitsLength: number,
    nowMs: number,
    maxAgeMs: number,
  ): void;
  hash(namespace: number, length: number): void;
}

export const instantiateCache = compileModule<CacheWasm>(new URL('./cache.wasm', import.meta.url));

/** Creates an instance with a budget for the local cache, and its memory. */
export function openCache(maxBytes: number, outputBytes: number): { wasm: CacheWasm; memory: Memory } {
  const { wasm, memory } = instantiateCache(PAGE_BYTES);
  const bytes = wasm.init(maxBytes, outputBytes, ...HASH_SEED) >>> 0;
  memory.grow(Math.ceil(bytes / PAGE_BYTES) - 1);
  return { wasm, memory };
}
