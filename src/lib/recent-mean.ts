import { RecentValue } from './recent-value.ts';

/** Number of measurements after which the former ones count for a third. */
const RECENT = 32;

/** The mean of the recent measurements of each API key, if it is above the usual one. */
export class RecentMean extends RecentValue {
  /** Takes so many measurements with this sum. */
  note(owner: string, count: number, sum: number): void {
    const before = this.get(owner);
    this.set(owner, before + (sum / count - before) * (1 - Math.exp(-count / RECENT)));
  }
}
