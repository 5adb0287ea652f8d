/** Number of hotels between two starts. The segments of a million hotels take 1 MiB. */
export const STRIDE = 200;
/** Number of hotels beyond which a segment is long. */
export const MAX_COUNT = 5 * STRIDE;

/** Part of the list: the hotels with ids from its start to before the start of the next one. */
export interface Segment {
  /** null: before all ids */
  readonly start: Buffer | null;
  index: number;
  /** the last count */
  count: number;
  /** tick before the query that counted it; -1: never counted */
  countedAt: number;
  /** tick of the last insert or delete in it */
  movedAt: number;
  /** it is too long to be read or counted by one query, and must be divided */
  isLong: boolean;
}

const segment = (start: Buffer | null, fields: Partial<Segment> = {}): Segment => ({
  ...{ start, index: 0, count: 0, countedAt: -1, movedAt: -1, isLong: false },
  ...fields,
});

/**
 * The list in segments, with the number of hotels of each. An insert or a delete invalidates the count of its segment.
 * Time is counted in ticks, one for each insert or delete. A query that began at a tick, or later, has seen all changes
 * received by that tick.
 */
export class ListSegments {
  tick = 0;
  #all: Segment[] = [];
  /** number of hotels before each segment; valid up to the place #summed */
  #sums = new Float64Array(1);
  #summed = 0;
  readonly #uncounted = new Set<Segment>();
  readonly #long = new Set<Segment>();

  constructor() {
    this.#put([segment(null, { isLong: true })]);
  }

  /** First long segment, behind which no position is known. */
  get firstLong(): Segment | undefined {
    let first: Segment | undefined;
    for (const each of this.#long) if (!first || each.index < first.index) first = each;
    return first;
  }

  /** Number of all hotels; undefined while a count is invalid or missing. */
  get total(): number | undefined {
    if (this.#long.size > 0 || this.#uncounted.size > 0) return undefined;
    const last = this.#all.length - 1;
    this.#sumUpTo(last);
    return this.#sums[last]! + this.#all[last]!.count;
  }

  /** Returns false for a segment that has been replaced. */
  has(each: Segment): boolean {
    return this.#all[each.index] === each;
  }

  after(each: Segment): Segment | undefined {
    return this.#all[each.index + 1];
  }

  /** Returns the segment of an offset, or the last before it with a known position, and the number of ids to skip in it. */
  at(offset: number): { segment: Segment; skip: number } {
    let low = 0;
    let high = this.firstLong?.index ?? this.#all.length - 1;
    this.#sumUpTo(high);
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#sums[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    return { segment: this.#all[low]!, skip: offset - this.#sums[low]! };
  }

  /** Returns true if all segments before this one were counted at this tick or later, or are unchanged since. */
  isExactBefore(each: Segment, tick: number): boolean {
    for (const { index, countedAt } of this.#uncounted)
      if (index < each.index && countedAt < tick) return false;
    return true;
  }

  /** Returns at most `limit` segments with invalid counts, first those whose last count is oldest. */
  uncounted(limit: number): Segment[] {
    return [...this.#uncounted]
      .sort((a, b) => a.countedAt - b.countedAt || a.index - b.index)
      .slice(0, limit);
  }

  /** Handles the insert or delete of a hotel with this id; returns its segment. */
  moved(id: string): Segment {
    const found = this.#all[this.#indexOf(Buffer.from(id))]!;
    found.movedAt = ++this.tick;
    if (!found.isLong) this.#uncounted.add(found);
    return found;
  }

  /** Handles the count of a query that began at `tick`; returns true if it is still valid, and not too large. */
  counted(each: Segment, count: number, tick: number): boolean {
    // a later query may have been answered earlier
    if (!this.has(each) || each.isLong || tick < each.countedAt) return false;
    if (count > MAX_COUNT) {
      each.isLong = true;
      this.#long.add(each);
      this.#uncounted.delete(each);
      return false;
    }
    each.countedAt = tick;
    if (count !== each.count) this.#summed = Math.min(this.#summed, each.index);
    each.count = count;
    if (each.movedAt > tick) return false;
    this.#uncounted.delete(each);
    return true;
  }

  /**
   * Divides a long segment at ids that are `STRIDE` hotels apart, the first at that distance from its start. `isWhole`: it
   * contains no more of them. `moved`: the ids inserted or deleted since the query began, at `tick`.
   */
  divide(each: Segment, starts: Buffer[], isWhole: boolean, moved: string[], tick: number): void {
    if (!this.has(each)) return;
    const known = { count: STRIDE, countedAt: tick };
    const parts = [each.start, ...starts].map((start) => segment(start, known));
    const last = parts.at(-1)!;
    Object.assign(last, { count: 0, countedAt: -1, isLong: !isWhole });
    this.#long.delete(each);
    this.#put([...this.#all.slice(0, each.index), ...parts, ...this.#all.slice(each.index + 1)]);
    if (isWhole) this.#uncounted.add(last);
    for (const id of moved) this.moved(id);
  }

  #put(all: Segment[]): void {
    this.#all = all;
    for (const [index, each] of all.entries()) {
      each.index = index;
      if (each.isLong) this.#long.add(each);
    }
    this.#sums = new Float64Array(all.length);
    this.#summed = 0;
  }

  #sumUpTo(index: number): void {
    for (let i = this.#summed; i < index; i++) this.#sums[i + 1] = this.#sums[i]! + this.#all[i]!.count;
    this.#summed = Math.max(this.#summed, index);
  }

  /** Returns the last segment whose start is not after the id. */
  #indexOf(id: Buffer): number {
    let low = 0;
    let high = this.#all.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (Buffer.compare(this.#all[middle]!.start!, id) <= 0) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
