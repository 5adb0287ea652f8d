/** Hotels between two marks at first. */
const FIRST_STRIDE = 200;
/** Past so many stretches each two become one: they take 4 MiB, however many hotels there are. */
const MAX_STRETCHES = 20_000;
/** A stretch of more than so many strides is long. */
const LONG_STRIDES = 5;

/** A part of the list: the hotels whose ids stand from its mark to before the mark of the next one. */
export interface Stretch {
  /** null: before all ids */
  readonly mark: Buffer | null;
  index: number;
  /** as it was counted last */
  count: number;
  /** the tick before the query that counted it; -1: it has not been counted */
  countedAt: number;
  /** the tick at which a hotel came or went here last */
  movedAt: number;
  /** it is too long to be read or counted by one query; only the marks within it can be looked for */
  isLong: boolean;
}

const stretch = (mark: Buffer | null, fields: Partial<Stretch> = {}): Stretch => ({
  ...{ mark, index: 0, count: 0, countedAt: -1, movedAt: -1, isLong: false },
  ...fields,
});

/**
 * The list in stretches, with the number of hotels of each. An insert or a delete makes the count of its stretch
 * doubtful. Time is counted in ticks, one for each hotel that moves: a query that began at a tick, or later, has seen all
 * that was heard of at that tick.
 */
export class Stretches {
  stride = FIRST_STRIDE;
  tick = 0;
  #all: Stretch[] = [];
  /** hotels before each stretch; right up to the place #summed */
  #sums = new Float64Array(1);
  #summed = 0;
  readonly #isSuspect = new Set<Stretch>();
  readonly #long = new Set<Stretch>();

  constructor() {
    this.#put([stretch(null, { isLong: true })]);
  }

  /** A stretch of more hotels than this is long. */
  get maxCount(): number {
    return LONG_STRIDES * this.stride;
  }

  /** The first of the long ones, behind which no position is known. */
  get firstLong(): Stretch | undefined {
    let first: Stretch | undefined;
    for (const each of this.#long) if (!first || each.index < first.index) first = each;
    return first;
  }

  /** All hotels; undefined while a count is doubtful or missing. */
  get total(): number | undefined {
    if (this.#long.size > 0 || this.#isSuspect.size > 0) return undefined;
    const last = this.#all.length - 1;
    this.#sumUpTo(last);
    return this.#sums[last]! + this.#all[last]!.count;
  }

  /** False for one that has been replaced since. */
  has(each: Stretch): boolean {
    return this.#all[each.index] === each;
  }

  after(each: Stretch): Stretch | undefined {
    return this.#all[each.index + 1];
  }

  /** The stretch of an offset, or the last before it whose position is known, and how many ids to pass in it. */
  at(offset: number): { stretch: Stretch; skip: number } {
    let low = 0;
    let high = this.firstLong?.index ?? this.#all.length - 1;
    this.#sumUpTo(high);
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#sums[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    return { stretch: this.#all[low]!, skip: offset - this.#sums[low]! };
  }

  /** True when all stretches before this one were counted after this tick, or nothing has moved there since. */
  isExactBefore(each: Stretch, tick: number): boolean {
    for (const { index, countedAt } of this.#isSuspect)
      if (index < each.index && countedAt < tick) return false;
    return true;
  }

  /** Those whose counts are doubtful, at most `most`, first those that have been so for longest. */
  doubtful(most: number): Stretch[] {
    return [...this.#isSuspect].sort((a, b) => a.countedAt - b.countedAt || a.index - b.index).slice(0, most);
  }

  /** A hotel with this id came or went; returns the stretch where it stands or stood. */
  moved(id: string): Stretch {
    const found = this.#all[this.#indexOf(Buffer.from(id))]!;
    found.movedAt = ++this.tick;
    if (!found.isLong) this.#isSuspect.add(found);
    return found;
  }

  /** A query that began at `tick` counted so many hotels; true when that still holds, and is not too many. */
  counted(each: Stretch, count: number, tick: number): boolean {
    if (!this.has(each) || each.isLong) return false;
    if (count > this.maxCount) {
      each.isLong = true;
      this.#long.add(each);
      this.#isSuspect.delete(each);
      return false;
    }
    each.countedAt = tick;
    if (count !== each.count) this.#summed = Math.min(this.#summed, each.index);
    each.count = count;
    if (each.movedAt > tick) return false;
    this.#isSuspect.delete(each);
    return true;
  }

  /**
   * Divides a long stretch at ids that stand `stride` hotels apart, the first as far from its mark; `isWhole`: there are no
   * more of them in it. `moved`: the ids that moved since the query began. Returns false when it has been replaced.
   */
  divide(each: Stretch, marks: Buffer[], stride: number, isWhole: boolean, moved: string[]): boolean {
    if (!this.has(each)) return false;
    const known = { count: stride, countedAt: this.tick };
    const parts = [each.mark, ...marks].map((mark) => stretch(mark, known));
    const last = parts.at(-1)!;
    Object.assign(last, { count: 0, countedAt: -1, isLong: !isWhole });
    this.#long.delete(each);
    this.#put([...this.#all.slice(0, each.index), ...parts, ...this.#all.slice(each.index + 1)]);
    if (isWhole) this.#isSuspect.add(last);
    for (const id of moved) this.moved(id);
    if (this.#all.length > MAX_STRETCHES) this.#thin();
    return true;
  }

  /** Makes one of each two, but for the long ones. */
  #thin(): void {
    this.stride *= 2;
    const thinned: Stretch[] = [];
    let left: Stretch | undefined;
    for (const each of this.#all) {
      if (!left || left.isLong || each.isLong) {
        if (left) thinned.push(left);
        left = each;
        continue;
      }
      const joined = stretch(left.mark, { count: left.count + each.count, countedAt: this.tick });
      if (this.#isSuspect.has(left) || this.#isSuspect.has(each)) {
        joined.countedAt = -1;
        this.#isSuspect.add(joined);
      }
      thinned.push(joined);
      left = undefined;
    }
    if (left) thinned.push(left);
    this.#put(thinned);
    for (const each of this.#isSuspect) if (!this.has(each)) this.#isSuspect.delete(each);
  }

  #put(all: Stretch[]): void {
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

  /** The last stretch whose mark is not after the id. */
  #indexOf(id: Buffer): number {
    let low = 0;
    let high = this.#all.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (Buffer.compare(this.#all[middle]!.mark!, id) <= 0) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
