import { monotonicMs } from './clock.ts';

/** Time in which a measurement fades by half: with time alone, so no requests can make it be forgotten. */
const HALVED_MS = 20_000;
/** Maximum number of API keys whose measurement is remembered. */
const MAX_OWNERS = 10_000;

/** The measurement of each API key for which one is remembered. */
export class ByOwner {
  readonly #known = new Map<string, [value: number, atMs: number]>();

  /** Returns the value, and the factor (at least 1) by which it has faded since; undefined if none is remembered. */
  get(owner: string): { value: number; faded: number } | undefined {
    const known = this.#known.get(owner);
    return known && { value: known[0], faded: 2 ** ((monotonicMs() - known[1]) / HALVED_MS) };
  }

  set(owner: string, value: number): void {
    if (this.#known.size >= MAX_OWNERS) this.#known.clear();
    this.#known.set(owner, [value, monotonicMs()]);
  }
}
