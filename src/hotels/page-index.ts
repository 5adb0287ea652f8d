import { isQueueFull, Unavailable } from '../errors.ts';
import { monotonicMs, nextIteration } from '../lib/clock.ts';
import { LruCache } from '../lib/lru-cache.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import { type IdList, type IdRange, type Page, queryPage, STRIDE, type Survey } from './id-list.ts';

/** Number of ids beyond which a segment is divided. */
const MAX_COUNT = 5 * STRIDE;
/** Number of segments that one query counts, and of ids by which it divides a long one; it must end within its deadline. */
const SEGMENTS_PER_QUERY = 50;
const IDS_PER_QUERY = SEGMENTS_PER_QUERY * STRIDE;
/** Maximum number of ids that the query of a request skips: 20,000 take about 3 ms. */
const MAX_SKIPPED_IDS = 20_000;
/** Maximum time that a request waits for positions that are being counted: a million hotels took 4.7 s. */
const MAX_COUNTING_MS = 5_000;

/** Bytes of a string beside its characters, with its place in an array. */
const STRING_BYTES = 40;

/** Part of the list: the hotels with ids from its start to before the start of the next one. */
interface Segment {
  /** null: before all ids */
  readonly start: Buffer | null;
  index: number;
  /** the last count; infinite if the segment is long: more than one query reads or counts */
  count: number;
  /** tick before the query that counted it; -1: never counted */
  countedAt: number;
  /** tick of the last insert or delete in it, or of the query that divided it off; -1: none */
  movedAt: number;
}

/** Segment of an offset, or a long one before it, and the number of ids to skip in it. */
interface Place {
  segment: Segment;
  skip: number;
}

/**
 * Index of the list by position. The list is divided into segments of about 200 ids, with their counts and the ids of
 * those read last. An insert or a delete invalidates its segment only, which is counted or read again before its next
 * use. Pages are exact for all received changes, in any order, and no query grows with the table. The segments of a million
 * hotels take 1 MiB.
 *
 * Time is counted in ticks, one for each insert or delete. A query that began at a tick, or later, has seen all changes
 * received by that tick.
 */
export class PageIndex {
  /** of the cached ids */
  readonly maxBytes: number;
  readonly #source: Pick<IdList, keyof IdList>;
  readonly #mayServe: () => boolean;
  readonly #blocks: LruCache<Segment, readonly string[]>;
  #tick = 0;
  #segments: Segment[] = [];
  /** segments that are long, or have changed since they were counted */
  readonly #uncounted = new Set<Segment>();
  /** number of hotels before each segment, as far as they are summed up; infinite behind a long one */
  #sums = [0];
  /** queries for the ids of segments, by the ids between which they are and the last change there */
  readonly #loading = new SingleFlight<string[]>(Infinity, isQueueFull);
  /** the query that counts or divides segments at present */
  #survey: Promise<void> | undefined;
  /** ids inserted or deleted during that query */
  #moved: string[] = [];
  #dividing: Promise<void> | undefined;

  /** Caches at most `maxBytes` of ids. While `mayServe` returns false, pages are queried. */
  constructor(source: Pick<IdList, keyof IdList>, maxBytes: number, mayServe = () => true) {
    this.maxBytes = maxBytes;
    this.#source = source;
    this.#mayServe = mayServe;
    this.#blocks = new LruCache(maxBytes, bytesOf);
    this.forget();
  }

  /** Divides long segments in the background: a million hotels take some seconds. After a failure the next page begins it again. */
  divide(): void {
    const divide = async () => {
      while (this.#countOfAll() === Infinity) await this.#surveyOldest();
    };
    this.#dividing ??= divide()
      .catch(() => {})
      .finally(() => {
        this.#dividing = undefined;
      });
  }

  /** Handles the insert or delete of a hotel with this id. */
  moved(id: string): void {
    if (this.#survey) this.#moved.push(id);
    this.#invalidate(id);
  }

  /** Invalidates the whole index. */
  forget(): void {
    const all = { start: null, index: 0, count: Infinity, countedAt: -1, movedAt: -1 };
    this.#segments = [all];
    this.#sums = [0];
    this.#uncounted.clear();
    this.#uncounted.add(all);
    this.#loading.clear();
    this.#blocks.clear();
  }

  /** Returns the page at `offset` if all of it is cached. */
  cachedPage(offset: number, limit: number): Page | undefined {
    if (!this.#mayServe()) return undefined;
    const place = this.#at(offset, this.#tick);
    const found = place && this.#pageFrom(place, limit);
    return found && 'ids' in found ? found : undefined;
  }

  /**
   * Returns the page at `offset`. `owner`: the API key whose share its queries use; those that count positions are shared by
   * all. With `isAgain` no held ids are used. Throws `Unavailable`, also if positions cannot be counted in time.
   */
  async page(offset: number, limit: number, owner: string, isAgain = false): Promise<Page> {
    if (!this.#mayServe()) return queryPage(this.#source, MAX_SKIPPED_IDS, offset, limit, owner);
    const tick = this.#tick;
    const untilMs = monotonicMs() + MAX_COUNTING_MS;
    /** also of segments that have changed since */
    const loaded = new Map<Segment, readonly string[]>();
    for (;;) {
      if (this.#countOfAll() === Infinity) this.divide();
      const place = this.#at(offset, tick);
      const found = place && this.#pageFrom(place, limit, loaded, isAgain);
      if (found && 'ids' in found) return found;
      if (monotonicMs() > untilMs)
        throw new Unavailable('the positions of the list are being counted', 'postgres_timeout');
      if (found && found.count < Infinity) {
        const ids = await this.#load(found, owner);
        if (ids.length <= MAX_COUNT) loaded.set(found, ids);
        continue;
      }
      if (place && place.skip <= MAX_SKIPPED_IDS) {
        const [start] = this.#boundsOf(place.segment);
        return queryPage(this.#source, MAX_SKIPPED_IDS, place.skip, limit, owner, start);
      }
      loaded.clear();
      await this.#surveyOldest();
    }
  }

  /** Returns the page at a place, or the first segment of it that is long or whose ids are not held. */
  #pageFrom(
    { segment, skip }: Place,
    limit: number,
    loaded?: ReadonlyMap<Segment, readonly string[]>,
    isAgain = false,
  ): Page | Segment {
    const ids: string[] = [];
    let from = skip;
    for (let each: Segment | undefined = segment; each; each = this.#segments[each.index + 1]) {
      const block = loaded?.get(each) ?? (isAgain ? undefined : this.#blocks.get(each));
      if (!block || each.count === Infinity) return each;
      for (let i = from; i < block.length; i++) {
        if (ids.length === limit) return { ids, more: true, total: this.#total };
        ids.push(block[i]!);
      }
      from = 0;
    }
    return { ids, more: false, total: this.#total };
  }

  /** Returns the ids of a segment, at most one more than it may have, and caches them. Throws `Unavailable`. */
  #load(each: Segment, owner: string): Promise<string[]> {
    const bounds = this.#boundsOf(each);
    return this.#loading.run(JSON.stringify([bounds, each.movedAt]), owner, async () => {
      const tick = this.#tick;
      const found = await this.#source.ids(bounds, 0, MAX_COUNT + 1, owner);
      const count = found.length > MAX_COUNT ? Infinity : found.length;
      if (this.#counted(each, count, tick)) this.#blocks.put(each, found);
      return found;
    });
  }

  /**
   * Counts the segments whose counts are oldest, or divides a long one, by one bounded query for all that wait for it. Throws
   * `Unavailable`.
   */
  #surveyOldest(): Promise<void> {
    this.#survey ??= this.#surveyNow().finally(() => {
      this.#survey = undefined;
    });
    return this.#survey;
  }

  async #surveyNow(): Promise<void> {
    const oldest = [...this.#uncounted].sort((a, b) => a.countedAt - b.countedAt || a.index - b.index);
    const [first] = oldest;
    if (!first) return nextIteration();
    const isLong = first.count === Infinity;
    const segments = isLong
      ? [first]
      : oldest.filter(({ count }) => count < Infinity).slice(0, SEGMENTS_PER_QUERY);
    const limit = isLong ? IDS_PER_QUERY : MAX_COUNT + 1;
    const tick = this.#tick;
    this.#moved = [];
    const ranges = segments.map((each) => this.#boundsOf(each));
    const found = await this.#source.survey(ranges, limit);
    for (const [i, each] of segments.entries()) this.#surveyed(each, found[i]!, limit, tick);
    // into the parts of what was divided
    for (const id of this.#moved) this.#invalidate(id);
  }

  /** Handles the answer to a query for at most `limit` ids that began at `tick`: a count, or the parts of a long segment. */
  #surveyed(each: Segment, { count, starts }: Survey, limit: number, tick: number): void {
    if (each.count < Infinity && count <= MAX_COUNT) {
      this.#counted(each, count, tick);
      return;
    }
    if (!this.#mayTake(each, tick)) return;
    const rest = count < limit ? count - STRIDE * starts.length : Infinity;
    const parts = [each.start, ...starts.map((id) => Buffer.from(id))].map((start, i) => {
      const known = i < starts.length ? STRIDE : rest;
      // a load that began before the query has another name
      return { start, index: 0, count: known, countedAt: tick, movedAt: tick };
    });
    this.#segments.splice(each.index, 1, ...parts);
    for (let i = each.index; i < this.#segments.length; i++) this.#segments[i]!.index = i;
    this.#uncounted.delete(each);
    if (rest === Infinity) this.#uncounted.add(parts.at(-1)!);
    this.#sums.length = Math.min(this.#sums.length, each.index + 1);
  }

  /** Handles the count of a query that began at `tick`. Returns true if it is exact. */
  #counted(each: Segment, count: number, tick: number): boolean {
    if (!this.#mayTake(each, tick)) return false;
    each.countedAt = tick;
    if (count !== each.count) this.#sums.length = Math.min(this.#sums.length, each.index + 1);
    each.count = count;
    const isExact = count < Infinity && each.movedAt <= tick;
    this.#uncounted[isExact ? 'delete' : 'add'](each);
    return isExact;
  }

  #invalidate(id: string): void {
    const bytes = Buffer.from(id);
    const found = this.#lastOf((i) => i === 0 || Buffer.compare(this.#segments[i]!.start!, bytes) <= 0);
    found.movedAt = ++this.#tick;
    this.#uncounted.add(found);
    this.#blocks.drop(found);
  }

  /** Number of all hotels; undefined while a count is invalid or missing. */
  get #total(): number | undefined {
    return this.#uncounted.size > 0 ? undefined : this.#countOfAll();
  }

  /** Returns the number of hotels by the last counts: infinite while a segment is long. */
  #countOfAll(): number {
    const sums = this.#sums;
    for (let i = sums.length; i < this.#segments.length; i++)
      sums.push(sums[i - 1]! + this.#segments[i - 1]!.count);
    return sums.at(-1)! + this.#segments.at(-1)!.count;
  }

  /**
   * Returns the place of an offset. It is undefined if a segment before it has changed since it was counted, and was counted
   * before `tick`.
   */
  #at(offset: number, tick: number): Place | undefined {
    this.#countOfAll();
    const sums = this.#sums;
    const segment = this.#lastOf((i) => sums[i]! <= offset);
    for (const { index, countedAt } of this.#uncounted)
      if (index < segment.index && countedAt < tick) return undefined;
    return { segment, skip: offset - sums[segment.index]! };
  }

  /** Returns false if a segment has been replaced, or if a later query than that of this tick was answered earlier. */
  #mayTake(each: Segment, tick: number): boolean {
    return this.#segments[each.index] === each && tick >= each.countedAt;
  }

  /** Returns the start of a segment and that of the next one. */
  #boundsOf(each: Segment): IdRange {
    const next = this.#segments[each.index + 1];
    return [each.start?.toString() ?? null, next?.start?.toString() ?? null];
  }

  /** Returns the last segment whose index passes, as those of all before it do. */
  #lastOf(passes: (index: number) => boolean): Segment {
    let low = 0;
    let high = this.#segments.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (passes(middle)) low = middle;
      else high = middle - 1;
    }
    return this.#segments[low]!;
  }
}

function bytesOf(ids: readonly string[]): number {
  let bytes = STRING_BYTES;
  for (const { length } of ids) bytes += STRING_BYTES + 2 * length;
  return bytes;
}
