import { compileModule, type Global } from '../wasm.ts';

/** What assembly/batch-body.ts exports; addresses and lengths are in bytes. */
export interface BatchBodyWasm {
  readonly INPUT: Global;
  readonly ELEMENTS: Global;
  readBody(length: number, isRegistry: number): number;
}

export const instantiate = compileModule<BatchBodyWasm>(new URL('./batch-body.wasm', import.meta.url));
