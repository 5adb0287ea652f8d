import { monotonicMs } from './clock.ts';

/** Time in which a value fades by half: with time alone, so no requests can make a maximum be forgotten. */
const HALVED_MS = 20_000;
/** Maximum number of API keys whose value is remembered. */
const MAX_OWNERS = 10_000;
/** Number of measurements after which the former ones count for a third in a mean. */
const RECENT = 32;

/** The maximum or the mean of the recent measurements of each API key, if it is above the usual one. */
export class RecentValue {
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

  /** Takes a measurement, for the maximum. */
  noteMaximum(owner: string, measured: number): void {
    if (measured > this.get(owner)) this.#set(owner, measured);
  }

  /** Takes so many measurements with this sum, for the mean. */
  noteMean(owner: string, count: number, sum: number): void {
    const before = this.get(owner);
    this.#set(owner, before + (sum / count - before) * (1 - Math.exp(-count / RECENT)));
  }

  #set(owner: string, value: number): void {
    if (value <= this.#usual) {
      this.#known.delete(owner);
      return;
    }
    if (this.#known.size >= MAX_OWNERS) this.#known.clear();
    this.#known.set(owner, { value, atMs: monotonicMs() });
  }
}
