import { RecentMaximum } from '../lib/recent-maximum.ts';

/** Limits the hotels that are read at once for an API key, by the size of its earlier ones: each may have 64 KiB. */
export class HotelsAtOnce {
  readonly #maxBytes: number;
  readonly #minCount: number;
  /** bytes of a hotel */
  readonly #sizes: RecentMaximum;

  /** Takes the maximum number, the bytes that one read may have, and the number that may always be read. */
  constructor(limit: number, maxBytes: number, minCount = 64) {
    this.#maxBytes = maxBytes;
    this.#minCount = minCount;
    this.#sizes = new RecentMaximum(maxBytes / limit, maxBytes / minCount);
  }

  maxFor(owner: string): number {
    return Math.round(this.#maxBytes / this.#sizes.get(owner));
  }

  /** Takes the number and the bytes of hotels that were read at once. A few hotels are not typical. */
  note(owner: string, hotels: number, bytes: number): void {
    if (hotels >= this.#minCount) this.#sizes.note(owner, bytes / hotels);
  }

  /** Notes that a read was late, or too large. */
  wasTooMuch(owner: string): void {
    this.#sizes.wasTooMuch(owner);
  }
}
