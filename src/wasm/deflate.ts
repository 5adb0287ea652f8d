import { compileModule, type Global } from './load.ts';

/** Exports of assembly/deflate/deflate.ts. Addresses and lengths are in bytes. */
interface DeflateWasm {
  readonly INPUT: Global;
  readonly PIECE_BYTES: Global;
  readonly OUTPUT: Global;
  readonly OUTPUT_BYTES: Global;
  begin(bytes: number): void;
  compress(length: number, isLast: number): number;
}

export const instantiateDeflate = compileModule<DeflateWasm>(new URL('./deflate.wasm', import.meta.url));
