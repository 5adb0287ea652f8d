/** Weight of a new measurement of the rate against the earlier ones. */
const WEIGHT = 0.2;
/** Time without a queue after which the measured rate is dropped: it may be that of an outage. */
const FORGOTTEN_MS = 1_000;

interface QueuedItem<Item> {
  item: Item;
  size: number;
  sinceMs: number;
  next: QueuedItem<Item> | undefined;
}

/** The queued items of one owner. */
interface Flow<Item> {
  first: QueuedItem<Item>;
  last: QueuedItem<Item>;
  size: number;
  /** size that may leave before the next owner is served */
  deficit: number;
}

/**
 * Queue that shares its rate among the owners of its items and estimates how long a new item would wait. The size of an
 * item, in any unit, states how long it takes. Owners are served by deficit round robin (Shreedhar and Varghese 1995):
 * each gets an equal share, and a single owner gets all. Times are those of any one clock, in ms.
 */
export class WaitQueue<Item> {
  /** owners with queued items; the first is served next */
  readonly #flows = new Map<string, Flow<Item>>();
  readonly #quantum: number;
  readonly #initialMsPerUnit: number;
  #length = 0;
  #size = 0;
  #msPerUnit: number;
  /** size that has left since the rate was last measured, and the time of that measurement */
  #left = 0;
  #measuredAtMs = 0;

  /**
   * `msPerUnit`: time per unit of size, used until the rate has been measured, and after a second without a queue.
   * `quantum`: size that an owner may use in one round, about that of a usual item.
   */
  constructor(msPerUnit: number, quantum: number) {
    this.#initialMsPerUnit = msPerUnit;
    this.#msPerUnit = msPerUnit;
    this.#quantum = quantum;
  }

  get length(): number {
    return this.#length;
  }

  /** Total size of the queued items. */
  get size(): number {
    return this.#size;
  }

  append(owner: string, item: Item, size: number, nowMs: number): void {
    const place = { item, size, sinceMs: nowMs, next: undefined };
    if (this.#length === 0) {
      if (nowMs - this.#measuredAtMs > FORGOTTEN_MS) this.#msPerUnit = this.#initialMsPerUnit;
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

  /** Removes and returns the next item, of the owners for whom `may` returns true; undefined if there is none. */
  shift(may?: (owner: string) => boolean): { item: Item; size: number; sinceMs: number } | undefined {
    for (const [owner, flow] of this.#flows) {
      if (may?.(owner) === false) continue;
      const place = flow.first;
      if (this.#flows.size > 1 && flow.deficit < place.size) {
        flow.deficit += this.#quantum;
        // moves behind the others; this loop reaches it again
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

  /** Updates the rate; must be called after items have left. */
  measure(nowMs: number): void {
    if (this.#left === 0) return;
    this.#msPerUnit += WEIGHT * ((nowMs - this.#measuredAtMs) / this.#left - this.#msPerUnit);
    this.#measuredAtMs = nowMs;
    this.#left = 0;
  }

  has(owner: string): boolean {
    return this.#flows.has(owner);
  }

  /** Returns true if `may` returns true for one of the owners. */
  some(may: (owner: string) => boolean): boolean {
    for (const owner of this.#flows.keys()) if (may(owner)) return true;
    return false;
  }

  /**
   * Estimates the size that leaves before a new item of this owner. It is the size of its own items and an equal share
   * of every other owner, at most that of all. An item above the quantum waits for rounds in which others leave.
   */
  sizeBefore(owner: string): number {
    if (this.#length === 0) return 0;
    const flow = this.#flows.get(owner);
    const others = this.#flows.size - (flow ? 1 : 0);
    const own = flow?.size ?? 0;
    const mean = Math.min(this.#quantum, this.#size / this.#length);
    return Math.min(this.#size, own + others * (own + mean));
  }

  /**
   * Returns true if a new item of this owner would wait longer than `maxMs` by the recent rate (Little's law). Also true if
   * the owner's first item has already waited longer.
   */
  isFull(owner: string, maxMs: number, nowMs: number): boolean {
    const first = this.#flows.get(owner)?.first;
    if (first && nowMs - first.sinceMs > maxMs) return true;
    return this.sizeBefore(owner) * this.#msPerUnit > maxMs;
  }
}
