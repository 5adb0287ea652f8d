// the global of this name is a getter, which V8 calls anew at every use
import { performance } from 'node:perf_hooks';
import type { Told } from '../stores/replica.ts';
import { SILENCE_MS } from './listener.ts';

/** When a worker last heard of the change feed; every worker judges its link by its own clock. */
export class Link {
  #heardAtMs = -Infinity;
  #told: Told | undefined;

  /** `told`: undefined where that is not known. */
  heard(told?: Told): void {
    this.#heardAtMs = performance.now();
    this.#told = told;
  }

  /** Messages may have been missed: until one is heard, so may the generation be that Redis is in. */
  broke(): void {
    this.#heardAtMs = -Infinity;
    this.#told = undefined;
  }

  /** What was heard last of changes; undefined when that is not known, or there may be more. */
  get told(): Told | undefined {
    return this.up ? this.#told : undefined;
  }

  /** False when changes may have been made that this worker has not heard of. */
  get up(): boolean {
    return performance.now() - this.#heardAtMs < SILENCE_MS;
  }
}
