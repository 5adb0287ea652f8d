import { compileModule, type Global, HASH_SEED, type Memory, PAGE_BYTES } from './load.ts';

/** Exports of assembly/cache.ts. Addresses and lengths are in bytes, times in milliseconds. */
export interface CacheWasm
  extends Record<'INPUT' | 'INPUT_BYTES' | 'ELEMENTS' | 'GAPS' | 'HASHES' | 'RESULT' | 'outputStart', Global>,
    Record<'entries' | 'absences' | 'evictions' | 'puts', Global> {
  /** index of the first wrong element of a body */
  readonly wrongIndex: Global;
  init(maxBytes: number, outputBytes: number, a: bigint, b: bigint, c: bigint, d: bigint): number;
  setMagic(magic: number): void;
  maxEntryBytes(): number;
  putEntry(entry: number, length: number, nowMs: number, untilMs: number): number;
  putAbsence(namespace: number, key: number, length: number, nowMs: number, untilMs: number): void;
  find(
    namespace: number,
    key: number,
    length: number,
    nowMs: number,
    minStoredAtMs: number,
    wallMs: number,
  ): number;
  dropKey(namespace: number, key: number, length: number): void;
  dropSince(sinceMs: number): void;
  narrow(ref: number): void;
  findForm(ref: number, form: number): number;
  putForm(ref: number, form: number, length: number): void;
  readBody(length: number, namespace: number): number;
  hashKeys(count: number, namespace: number): void;
  gather(
    count: number,
    namespace: number,
    isFull: number,
    nowMs: number,
    minStoredAtMs: number,
    wallMs: number,
    hashesIds: number,
  ): number;
  hashId(ref: number): void;
  hasRoom(): number;
  clear(): void;
  writtenBytes(): number;

  readonly PREFIX: Global;
  readonly PLACES: Global;
  readonly SCRATCH: Global;
  readonly COMMAND: Global;
  readonly REPLY: Global;
  readonly REPLY_BYTES: Global;
  readonly RESPONSE: Global;
  readonly WINDOW: Global;
  requestPointers(misses: number, namespace: number, prefixLength: number): number;
  requestEntries(
    count: number,
    length: number,
    namespace: number,
    prefixLength: number,
    nowMs: number,
    maxAbsenceMs: number,
  ): number;
  takeEntries(
    count: number,
    namespace: number,
    view: number,
    wallMs: number,
    hitsLength: number,
    nowMs: number,
    maxAgeMs: number,
    maxAbsenceMs: number,
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
