/** Bodies that may wait in a line, whatever the time they would take. */
const MAX_BYTES = 32 * 1024 * 1024;
/** How much a new measurement of the rate counts against those before it. */
const WEIGHT = 0.2;

interface Place<Item> {
  item: Item;
  bytes: number;
  sinceMs: number;
  next: Place<Item> | undefined;
}

/** A queue that knows how long a newcomer would wait in it. Times are of `performance.now()`. */
export class WaitingLine<Item> {
  #first: Place<Item> | undefined;
  #last: Place<Item> | undefined;
  #length = 0;
  #bytes = 0;
  #msPerByte: number;
  /** bytes that have left since the rate was measured last, and when that was */
  #left = 0;
  #measuredAtMs = 0;

  /** `msPerByte`: how fast it goes as long as nothing has been measured. */
  constructor(msPerByte: number) {
    this.#msPerByte = msPerByte;
  }

  get length(): number {
    return this.#length;
  }

  append(item: Item, bytes: number, nowMs: number): void {
    const place = { item, bytes, sinceMs: nowMs, next: undefined };
    if (this.#last) this.#last.next = place;
    else {
      this.#first = place;
      this.#measuredAtMs = nowMs;
      this.#left = 0;
    }
    this.#last = place;
    this.#length++;
    this.#bytes += bytes;
  }

  /** Takes the first out, if there is one. */
  shift(): { item: Item; bytes: number; sinceMs: number } | undefined {
    const place = this.#first;
    if (!place) return undefined;
    this.#first = place.next;
    if (!place.next) this.#last = undefined;
    this.#length--;
    this.#bytes -= place.bytes;
    this.#left += place.bytes;
    return place;
  }

  /** To be called after some have left: how long that took says how long others will. */
  measure(nowMs: number): void {
    if (this.#left === 0) return;
    this.#msPerByte += WEIGHT * ((nowMs - this.#measuredAtMs) / this.#left - this.#msPerByte);
    this.#measuredAtMs = nowMs;
    this.#left = 0;
  }

  /**
   * True when a newcomer would wait longer than `mostMs`: what waits already by the rate at which it went lately
   * (Little's law), and at least as long as the first has waited, should it not go any more.
   */
  isFull(mostMs: number, nowMs: number): boolean {
    if (!this.#first) return false;
    return (
      this.#bytes * this.#msPerByte > mostMs ||
      nowMs - this.#first.sinceMs > mostMs ||
      this.#bytes > MAX_BYTES
    );
  }
}
