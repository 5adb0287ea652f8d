import { compileModule, type Global } from './load.ts';

/** Exports of assembly/arena/arena.ts. Addresses are in bytes, times in milliseconds. */
export interface ArenaWasm {
  readonly RESULT: Global;
  readonly INPUT: Global;
  readonly INPUT_BYTES: Global;
  readonly ELEMENTS: Global;
  readonly GAPS: Global;
  readonly HASHES: Global;
  readonly outputStart: Global;
  readonly indexSlots: Global;
  init(maxBytes: number, outputBytes: number, a: bigint, b: bigint, c: bigint, d: bigint): void;
  maxEntryBytes(): number;
  put(length: number, nowMs: number, softUntilMs: number): number;
  putAbsent(namespace: number, length: number, nowMs: number, untilMs: number): void;
  find(namespace: number, length: number, nowMs: number, minStoredAtMs: number, wallMs: number): number;
  drop(namespace: number, length: number): void;
  narrow(ref: number): void;
  findForm(ref: number, form: number): number;
  putForm(ref: number, form: number, length: number): void;
  gatherBody(
    length: number,
    namespace: number,
    isFull: number,
    nowMs: number,
    minStoredAtMs: number,
    wallMs: number,
    isRestricted: number,
  ): number;
  gatherElements(
    count: number,
    namespace: number,
    isFull: number,
    nowMs: number,
    minStoredAtMs: number,
    wallMs: number,
  ): number;
  hashId(ref: number): void;
  hasRoom(): number;
  writeHotIds(slot: number, count: number): number;
  clear(): void;
  stats(): void;
}

/** Creates an instance with its own zeroed memory of at least `bytes`. A page becomes resident when it is written. */
export const instantiate = compileModule<ArenaWasm>(new URL('./arena.wasm', import.meta.url));
