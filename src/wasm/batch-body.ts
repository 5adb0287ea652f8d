import { compileModule, type Global } from './load.ts';

/** Exports of assembly/batch-body/batch-body.ts; addresses and lengths are in bytes. */
export interface BatchBodyWasm {
  readonly INPUT: Global;
  readonly ELEMENTS: Global;
  /** where an element is wrong: the index of the first such */
  readonly wrongIndex: Global;
  readBody(length: number, isRegistry: number): number;
}

export const instantiate = compileModule<BatchBodyWasm>(new URL('./batch-body.wasm', import.meta.url));
