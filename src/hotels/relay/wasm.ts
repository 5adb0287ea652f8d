import { compileModule } from '../wasm.ts';

interface Address {
  readonly value: number;
}

/** What assembly/relay.ts exports; addresses and lengths are in bytes, times in epoch ms. */
export interface RelayWasm {
  readonly RESULT: Address;
  readonly INPUT: Address;
  readonly INPUT_BYTES: Address;
  readonly PREFIX: Address;
  readonly PLACES: Address;
  readonly SCRATCH: Address;
  readonly STREAMED: Address;
  readonly COMMAND: Address;
  readonly GAPS: Address;
  readonly POINTERS: Address;
  readonly POINTERS_BYTES: Address;
  readonly REPLY: Address;
  readonly OUTPUT: Address;
  readonly OUTPUT_BYTES: Address;
  init(a: bigint, b: bigint, c: bigint, d: bigint): void;
  askFor(length: number, namespace: number, prefixLength: number): number;
  point(count: number, length: number, namespace: number, prefixLength: number): number;
  beginStream(count: number, namespace: number, isFull: number, nowMs: number): void;
  chunkStart(): number;
  takeChunk(length: number): number;
  note(namespace: number, length: number, version: number): void;
  turnChanges(): void;
  checksum(length: number): number;
}

export const instantiate = compileModule<RelayWasm>(new URL('./relay.wasm', import.meta.url));
