/** How much a new measurement of the rate counts against those before it. */
const WEIGHT = 0.2;

interface Place<Item> {
  item: Item;
  size: number;
  sinceMs: number;
  next: Place<Item> | undefined;
}

/**
 * A queue that knows how long a newcomer would wait in it. What stands in it has a size, in any unit, that says how
 * much longer than others it takes. Times are of `performance.now()`.
 */
export class WaitingLine<Item> {
  #first: Place<Item> | undefined;
  #last: Place<Item> | undefined;
  #length = 0;
  #size = 0;
  #msPerUnit: number;
  /** the size of what has left since the rate was measured last, and when that was */
  #left = 0;
  #measuredAtMs = 0;

  /** `msPerUnit`: how fast it goes as long as nothing has been measured. */
  constructor(msPerUnit: number) {
    this.#msPerUnit = msPerUnit;
  }

  get length(): number {
    return this.#length;
  }

  /** Of all that stand in it. */
  get size(): number {
    return this.#size;
  }

  append(item: Item, size: number, nowMs: number): void {
    const place = { item, size, sinceMs: nowMs, next: undefined };
    if (this.#last) this.#last.next = place;
    else {
      this.#first = place;
      this.#measuredAtMs = nowMs;
      this.#left = 0;
    }
    this.#last = place;
    this.#length++;
    this.#size += size;
  }

  /** Takes the first out, if there is one. */
  shift(): { item: Item; size: number; sinceMs: number } | undefined {
    const place = this.#first;
    if (!place) return undefined;
    this.#first = place.next;
    if (!place.next) this.#last = undefined;
    this.#length--;
    this.#size -= place.size;
    this.#left += place.size;
    return place;
  }

  /** To be called after some have left: how long that took says how long others will. */
  measure(nowMs: number): void {
    if (this.#left === 0) return;
    this.#msPerUnit += WEIGHT * ((nowMs - this.#measuredAtMs) / this.#left - this.#msPerUnit);
    this.#measuredAtMs = nowMs;
    this.#left = 0;
  }

  /**
   * True when a newcomer would wait longer than `mostMs`: what waits already by the rate at which it went lately
   * (Little's law), and at least as long as the first has waited, should it not go any more.
   */
  isFull(mostMs: number, nowMs: number): boolean {
    if (!this.#first) return false;
    return this.#size * this.#msPerUnit > mostMs || nowMs - this.#first.sinceMs > mostMs;
  }
}
