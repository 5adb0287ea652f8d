import { monotonicMs } from '../lib/clock.ts';

/** Time in which the number of an API key doubles: by time alone, so no small reads can make it forget large hotels. */
const DOUBLED_MS = 20_000;
/** Maximum number of API keys with large hotels that are remembered. */
const MAX_OWNERS = 10_000;

/** How many hotels may be read at once for an API key, by the size of those before: each may have 64 KiB. */
export class HotelsAtOnce {
  readonly #limit: number;
  readonly #maxBytes: number;
  readonly #least: number;
  /** of keys for which it is below the limit, with the time of the estimate */
  readonly #most = new Map<string, [most: number, atMs: number]>();

  /** Takes the maximum number, the bytes that one read may have, and the number that may always be read. */
  constructor(limit: number, maxBytes: number, least = 64) {
    this.#limit = limit;
    this.#maxBytes = maxBytes;
    this.#least = least;
  }

  most(owner: string): number {
    const known = this.#most.get(owner);
    if (!known) return this.#limit;
    const most = known[0] * 2 ** ((monotonicMs() - known[1]) / DOUBLED_MS);
    return Math.min(this.#limit, Math.floor(most));
  }

  /** Takes the number and the bytes of hotels that were read at once. A few hotels are not typical. */
  read(owner: string, hotels: number, bytes: number): void {
    if (hotels < this.#least) return;
    const fit = (this.#maxBytes * hotels) / bytes;
    if (fit < this.most(owner)) this.#set(owner, fit);
  }

  /** Notes that a read was late, or too large. */
  tooMany(owner: string): void {
    this.#set(owner, this.most(owner) / 4);
  }

  #set(owner: string, most: number): void {
    if (this.#most.size >= MAX_OWNERS) this.#most.clear();
    this.#most.set(owner, [Math.max(this.#least, most), monotonicMs()]);
  }
}
