import { monotonicMs } from '../lib/clock.ts';
import type { Told } from '../postgres/replica.ts';
import { SILENCE_MS } from './listener.ts';

/** When a worker last heard of the change feed; every worker judges its link by its own clock. */
export class Link {
  #heardAtMs = -Infinity;
  #told: Told | undefined;

  /** `agoMs`: how long ago the instance heard it. */
  heard(told: Told | undefined, agoMs: number): void {
    this.#heardAtMs = monotonicMs() - agoMs;
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
    return this.isUp(monotonicMs());
  }

  /** The same where the time is known already: to look at the clock is dear beside all else that a hit costs. */
  isUp(nowMs: number): boolean {
    return nowMs - this.#heardAtMs < SILENCE_MS;
  }
}
