/** How much a new measurement of the rate counts against those before it. */
const WEIGHT = 0.2;

interface QueuedItem<Item> {
  item: Item;
  size: number;
  sinceMs: number;
  next: QueuedItem<Item> | undefined;
}

/** What waits of one owner. */
interface Flow<Item> {
  first: QueuedItem<Item>;
  last: QueuedItem<Item>;
  size: number;
  /** what may leave of it before it is the turn of the others */
  deficit: number;
}

/**
 * A queue that shares its rate among the owners of what waits in it, and knows how long a newcomer would wait. What
 * waits has a size, in any unit, that says how much longer than others it takes. The owners take turns (deficit round
 * robin, Shreedhar and Varghese 1995): each has as much, however much it wants; one that waits alone has all. Times are
 * of `performance.now()`.
 */
export class WaitQueue<Item> {
  /** those of which something waits; the first is the one whose turn it is */
  readonly #flows = new Map<string, Flow<Item>>();
  readonly #quantum: number;
  #length = 0;
  #size = 0;
  #msPerUnit: number;
  /** the size of what has left since the rate was measured last, and when that was */
  #left = 0;
  #measuredAtMs = 0;

  /**
   * `msPerUnit`: how fast it goes as long as nothing has been measured; `quantum`: what an owner may take in one turn,
   * about the size of what usually waits.
   */
  constructor(msPerUnit: number, quantum: number) {
    this.#msPerUnit = msPerUnit;
    this.#quantum = quantum;
  }

  get length(): number {
    return this.#length;
  }

  /** Of all that waits in it. */
  get size(): number {
    return this.#size;
  }

  append(owner: string, item: Item, size: number, nowMs: number): void {
    const place = { item, size, sinceMs: nowMs, next: undefined };
    if (this.#length === 0) {
      this.#measuredAtMs = nowMs;
      this.#left = 0;
    }
    const flow = this.#flows.get(owner);
    if (flow) {
      flow.last.next = place;
      flow.last = place;
      flow.size += size;
    } else this.#flows.set(owner, { first: place, last: place, size, deficit: 0 });
    this.#length++;
    this.#size += size;
  }

  /** Takes out what is next, if anything waits. */
  shift(): { item: Item; size: number; sinceMs: number } | undefined {
    for (const [owner, flow] of this.#flows) {
      const place = flow.first;
      if (this.#flows.size > 1 && flow.deficit < place.size) {
        flow.deficit += this.#quantum;
        // behind the others; this loop comes to it again
        this.#flows.delete(owner);
        this.#flows.set(owner, flow);
        continue;
      }
      flow.deficit = Math.max(0, flow.deficit - place.size);
      flow.size -= place.size;
      if (place.next) flow.first = place.next;
      else this.#flows.delete(owner);
      this.#length--;
      this.#size -= place.size;
      this.#left += place.size;
      return place;
    }
    return undefined;
  }

  /** To be called after some have left: how long that took says how long others will. */
  measure(nowMs: number): void {
    if (this.#left === 0) return;
    this.#msPerUnit += WEIGHT * ((nowMs - this.#measuredAtMs) / this.#left - this.#msPerUnit);
    this.#measuredAtMs = nowMs;
    this.#left = 0;
  }

  /** True when something of this owner waits. */
  has(owner: string): boolean {
    return this.#flows.has(owner);
  }

  /**
   * The size of what would leave before a newcomer of this owner: all that waits, or what waits of its own and as much of
   * each other owner, the newcomer included.
   */
  sizeBefore(owner: string): number {
    if (this.#length === 0) return 0;
    const flow = this.#flows.get(owner);
    const others = this.#flows.size - (flow ? 1 : 0);
    const own = flow?.size ?? 0;
    return Math.min(this.#size, own + others * (own + this.#size / this.#length));
  }

  /**
   * True when a newcomer of this owner would wait longer than `mostMs`: for what leaves before it by the rate of late
   * (Little's law), and at least as long as the owner's first has waited, should it not go any more.
   */
  isFull(owner: string, mostMs: number, nowMs: number): boolean {
    const first = this.#flows.get(owner)?.first;
    if (first && nowMs - first.sinceMs > mostMs) return true;
    return this.sizeBefore(owner) * this.#msPerUnit > mostMs;
  }
}
