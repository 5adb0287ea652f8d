import { monotonicMs } from './clock.ts';

/** Time in which a mean fades by half, so that what is not repeated is forgotten. */
const HALVED_MS = 20_000;
/** Number of measurements after which the former ones count for a third. */
const RECENT = 32;
/** Maximum number of API keys whose mean is remembered. */
const MAX_OWNERS = 10_000;

/** The mean of the recent measurements of each API key, if it is above the usual one. */
export class RecentMean {
  readonly #usual: number;
  readonly #known = new Map<string, { value: number; atMs: number }>();

  /** Takes the value of API keys without a larger one. */
  constructor(usual: number) {
    this.#usual = usual;
  }

  get(owner: string): number {
    const known = this.#known.get(owner);
    if (!known) return this.#usual;
    return Math.max(this.#usual, known.value / 2 ** ((monotonicMs() - known.atMs) / HALVED_MS));
  }

  /** Takes so many measurements with this sum. */
  note(owner: string, count: number, sum: number): void {
    const before = this.get(owner);
    const value = before + (sum / count - before) * (1 - Math.exp(-count / RECENT));
    if (value <= this.#usual) this.#known.delete(owner);
    else {
      if (this.#known.size >= MAX_OWNERS) this.#known.clear();
      this.#known.set(owner, { value, atMs: monotonicMs() });
    }
  }
}
