import { ByOwner } from '../lib/by-owner.ts';

/** How many hotels may be read at once for an API key, by the size of those before: each may have 64 KiB. */
export class HotelsAtOnce {
  readonly #limit: number;
  readonly #maxBytes: number;
  readonly #least: number;
  /** of API keys for which it is below the limit; it grows as it is forgotten */
  readonly #most = new ByOwner();

  /** Takes the maximum number, the bytes that one read may have, and the number that may always be read. */
  constructor(limit: number, maxBytes: number, least = 64) {
    this.#limit = limit;
    this.#maxBytes = maxBytes;
    this.#least = least;
  }

  most(owner: string): number {
    const known = this.#most.get(owner);
    return known ? Math.min(this.#limit, Math.floor(known.value * known.faded)) : this.#limit;
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
    this.#most.set(owner, Math.max(this.#least, most));
  }
}
