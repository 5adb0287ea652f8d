import { compileModule, type Global } from './load.ts';

/** Exports of assembly/id-hash/id-hash.ts. Addresses and lengths are in bytes. */
interface IdHashWasm {
  readonly RESULT: Global;
  readonly INPUT: Global;
  readonly INPUT_BYTES: Global;
  init(a: bigint, b: bigint, c: bigint, d: bigint): void;
  hash(length: number): void;
}

export const instantiate = compileModule<IdHashWasm>(new URL('./id-hash.wasm', import.meta.url));
