import { monotonicMs } from './clock.ts';

/** Time in which a maximum fades by half: with time alone, so no requests can make it be forgotten. */
const HALVED_MS = 20_000;
/** Maximum number of API keys whose maximum is remembered. */
const MAX_OWNERS = 10_000;

/** The largest recent measurement of each API key, if it is above the usual one. */
export class RecentMaximum {
  readonly #usual: number;
  readonly #max: number;
  readonly #known = new Map<string, { value: number; atMs: number }>();

  /** Takes the value of API keys without a larger one, and the value at which larger ones are cut. */
  constructor(usual: number, max = Infinity) {
    this.#usual = usual;
    this.#max = max;
  }

  get(owner: string): number {
    const known = this.#known.get(owner);
    if (!known) return this.#usual;
    return Math.max(this.#usual, known.value / 2 ** ((monotonicMs() - known.atMs) / HALVED_MS));
  }

  /** Takes a measurement of four times the present maximum, for work that was too much and was not measured. */
  wasTooMuch(owner: string): void {
    this.note(owner, 4 * this.get(owner));
  }

  note(owner: string, measured: number): void {
    const value = Math.min(measured, this.#max);
    if (value > this.get(owner)) {
      if (this.#known.size >= MAX_OWNERS) this.#known.clear();
      this.#known.set(owner, { value, atMs: monotonicMs() });
    }
  }
}
