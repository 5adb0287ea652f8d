import { compileModule, type Global } from './load.ts';

/** Exports of assembly/redis-batch/redis-batch.ts. Addresses and lengths are in bytes, times in epoch ms. */
export interface RedisBatchWasm {
  readonly RESULT: Global;
  readonly INPUT: Global;
  readonly INPUT_BYTES: Global;
  readonly PREFIX: Global;
  readonly PLACES: Global;
  readonly SCRATCH: Global;
  readonly STREAMED: Global;
  readonly COMMAND: Global;
  readonly GAPS: Global;
  readonly POINTERS: Global;
  readonly POINTERS_BYTES: Global;
  readonly REPLY: Global;
  readonly OUTPUT: Global;
  readonly ELEMENTS: Global;
  readonly HITS: Global;
  readonly HITS_BYTES: Global;
  readonly WINDOW: Global;
  readonly WINDOW_BUCKETS: Global;
  init(a: bigint, b: bigint, c: bigint, d: bigint): void;
  requestPointers(length: number, namespace: number, prefixLength: number, isFiltered: number): number;
  requestPointersOfElements(
    count: number,
    namespace: number,
    prefixLength: number,
    isFiltered: number,
  ): number;
  requestEntries(
    count: number,
    length: number,
    namespace: number,
    prefixLength: number,
    isFiltered: number,
  ): number;
  beginStream(
    count: number,
    namespace: number,
    isFull: number,
    nowMs: number,
    hitsStart: number,
    hitsLength: number,
    keptOneOf: number,
  ): void;
  chunkStart(): number;
  takeChunk(length: number): number;
  checksum(length: number): number;
}

/**
 * Imports of the module, by the file that declares each. `isVisible` is called for each id of a filtered batch,
 * `keepEntry` for each entry of a reply that the local cache may store.
 */
interface RedisBatchImports {
  requests: { isVisible(low: number, high: number): number };
  stream: { keepEntry(address: number, length: number): void };
}

export const instantiate = compileModule<RedisBatchWasm, RedisBatchImports>(
  new URL('./redis-batch.wasm', import.meta.url),
);
