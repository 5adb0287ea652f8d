import { monotonicMs } from './clock.ts';

/** Time in which a value fades by half: with time alone, so no requests can make it be forgotten. */
const HALVED_MS = 20_000;
/** Maximum number of API keys whose value is remembered. */
const MAX_OWNERS = 10_000;

/** A value of each API key that fades, if it is above the usual one. */
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

  protected set(owner: string, value: number): void {
    if (value <= this.#usual) {
      this.#known.delete(owner);
      return;
    }
    if (this.#known.size >= MAX_OWNERS) this.#known.clear();
    this.#known.set(owner, { value, atMs: monotonicMs() });
  }
}
