import { RecentValue } from './recent-value.ts';

/** The largest recent measurement of each API key, if it is above the usual one. */
export class RecentMaximum extends RecentValue {
  readonly #max: number;

  /** Takes the value of API keys without a larger one, and the value at which larger ones are cut. */
  constructor(usual: number, max = Infinity) {
    super(usual);
    this.#max = max;
  }

  /** Takes a measurement of four times the present maximum, for work that was too much and was not measured. */
  wasTooMuch(owner: string): void {
    this.note(owner, 4 * this.get(owner));
  }

  note(owner: string, measured: number): void {
    const value = Math.min(measured, this.#max);
    if (value > this.get(owner)) this.set(owner, value);
  }
}
