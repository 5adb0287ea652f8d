import { compileModule, type Global } from './load.ts';

/** Exports of assembly/batch-body/batch-body.ts. Addresses and lengths are in bytes. */
interface BatchBodyWasm {
  readonly INPUT: Global;
  readonly ELEMENTS: Global;
  /** index of the first wrong element */
  readonly wrongIndex: Global;
  readBody(length: number, namespace: number): number;
}

export const instantiate = compileModule<BatchBodyWasm>(new URL('./batch-body.wasm', import.meta.url));
