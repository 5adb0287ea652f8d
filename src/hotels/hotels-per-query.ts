/** Number of hotels that a query may read, whatever their size: 4 MiB at most. */
export const MIN_HOTELS = 64;
/** Maximum growth by one query. */
const GROWTH = 4;

/** Number of hotels that a query reads, by the size of those before: each may have 64 KiB. */
export class HotelsPerQuery {
  readonly #maxHotels: number;
  readonly #bytes: number;
  #hotels: number;

  /** Takes the most hotels and the bytes of a query, and the number of the first one. */
  constructor(maxHotels: number, bytes: number, first: number) {
    this.#maxHotels = maxHotels;
    this.#bytes = bytes;
    this.#hotels = first;
  }

  get hotels(): number {
    return this.#hotels;
  }

  /** Takes what a query has read. A few hotels are not typical. */
  read(hotels: number, bytes: number): void {
    if (hotels >= MIN_HOTELS) this.#set(Math.min(GROWTH * this.#hotels, (this.#bytes * hotels) / bytes));
  }

  /** Notes that a query was late. */
  late(): void {
    this.#set(this.#hotels / 4);
  }

  #set(hotels: number): void {
    this.#hotels = Math.max(MIN_HOTELS, Math.min(this.#maxHotels, Math.floor(hotels)));
  }
}
