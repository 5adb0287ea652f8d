/** Number of hotels that may be read at once, whatever their size: 4 MiB at most. */
const MIN_HOTELS = 64;
/** Maximum growth by one read: a key with large hotels is remembered for 90 small reads. */
const GROWTH = 1.03;
/** Maximum number of API keys with large hotels that are remembered. */
const MAX_OWNERS = 10_000;

/** How many hotels may be read at once for an API key, by the size of those before: each may have 64 KiB. */
export class HotelsAtOnce {
  readonly #limit: number;
  readonly #maxBytes: number;
  /** of keys for which it is below the limit */
  readonly #most = new Map<string, number>();

  /** Takes the maximum number, and the bytes that one read may have. */
  constructor(limit: number, maxBytes: number) {
    this.#limit = limit;
    this.#maxBytes = maxBytes;
  }

  most(owner: string): number {
    return Math.floor(this.#most.get(owner) ?? this.#limit);
  }

  /** Takes the number and the bytes of hotels that were read at once. A few hotels are not typical. */
  read(owner: string, hotels: number, bytes: number): void {
    if (hotels < MIN_HOTELS) return;
    const fit = (this.#maxBytes * hotels) / bytes;
    // of nearly all keys
    if (fit >= this.#limit && !this.#most.has(owner)) return;
    this.#set(owner, Math.min(GROWTH * (this.#most.get(owner) ?? this.#limit), fit));
  }

  /** Notes that a read was late, or too large. */
  tooMany(owner: string): void {
    this.#set(owner, this.most(owner) / 4);
  }

  #set(owner: string, most: number): void {
    if (this.#most.size >= MAX_OWNERS) this.#most.clear();
    if (most >= this.#limit) this.#most.delete(owner);
    else this.#most.set(owner, Math.max(MIN_HOTELS, most));
  }
}
