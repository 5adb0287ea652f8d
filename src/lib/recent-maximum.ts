import { RecentValue } from './recent-value.ts';

/** The largest recent measurement of each API key, if it is above the usual one. */
export class RecentMaximum extends RecentValue {
  note(owner: string, measured: number): void {
    if (measured > this.get(owner)) this.set(owner, measured);
  }
}
