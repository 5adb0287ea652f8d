/** Number of hotels that may be read at once, whatever their size: 4 MiB at most. */
const FEWEST = 64;
/** Maximum growth by one read. */
const GROWTH = 1.25;

/** How many hotels may be read at once, by the size of those before: each may have 64 KiB. */
export class HotelsAtOnce {
  readonly #limit: number;
  readonly #maxBytes: number;
  #most: number;

  /** Takes the maximum number, and the bytes that one read may have. */
  constructor(limit: number, maxBytes: number) {
    this.#limit = limit;
    this.#maxBytes = maxBytes;
    this.#most = limit;
  }

  get most(): number {
    return this.#most;
  }

  /** Takes the number and the bytes of hotels that were read at once. A few hotels are not typical. */
  read(hotels: number, bytes: number): void {
    if (hotels >= FEWEST) this.#set(Math.min(GROWTH * this.#most, (this.#maxBytes * hotels) / bytes));
  }

  /** Notes that a read was late, or too large. */
  tooMany(): void {
    this.#set(this.#most / 4);
  }

  #set(most: number): void {
    this.#most = Math.max(FEWEST, Math.min(this.#limit, Math.floor(most)));
  }
}
