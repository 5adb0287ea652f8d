import { isQueueFull, Unavailable } from '../errors.ts';
import { monotonicMs, nextIteration, pause } from '../lib/clock.ts';
import { LruCache } from '../lib/lru-cache.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import type { IdList } from './id-list.ts';
import { ListSegments, MAX_COUNT, type Segment, STRIDE } from './list-segments.ts';

/** Number of starts that one query finds; it must end within its deadline. */
const STARTS_PER_QUERY = 50;
const COUNTS_PER_QUERY = 50;
/** Maximum number of ids that the query of a request skips: 20,000 take about 3 ms. */
const MAX_SKIPPED_IDS = 20_000;
/** Maximum time that a request waits for positions that are being counted: a million hotels took 4.7 s. */
const MAX_COUNTING_MS = 5_000;
/** Pause after a failure, before the dividing is resumed. */
const DIVIDE_AGAIN_MS = 250;
const MAX_FAILURES = 20;

type ListSource = Pick<IdList, keyof IdList>;

/** Bytes of a string beside its characters, with its place in an array. */
const STRING_BYTES = 40;

/** Page of the list: ids in byte order, and whether more follow. */
export interface Page {
  ids: readonly string[];
  more: boolean;
  /** number of hotels in the list, if it is known without a query */
  total?: number | undefined;
}

/** Reads a page by a query that skips the ids before it. Throws `Unavailable`, also if more than `maxSkip` ids are before it. */
export async function queryPage(
  source: Pick<IdList, 'idsFrom'>,
  maxSkip: number,
  offset: number,
  limit: number,
  owner: string,
): Promise<Page> {
  if (offset > maxSkip)
    throw new Unavailable(
      `positions over ${maxSkip} are not known: the log cannot be followed, or the collection is not in memory`,
      'postgres_timeout',
    );
  const ids = await source.idsFrom(null, offset, limit + 1, owner);
  return { ids: ids.slice(0, limit), more: ids.length > limit };
}

/**
 * Index of the list by position. The list is divided into segments of about 200 ids, with their counts and the ids of
 * those read last. An insert or a delete invalidates its segment only, which is counted or read again before its next
 * use. Pages are exact for all received changes, in any order, and no query grows with the table.
 */
export class PageIndex {
  /** maximum bytes of the cached ids */
  readonly maxBytes: number;
  readonly #source: ListSource;
  readonly #mayServe: () => boolean;
  readonly #retryMs: number;
  readonly #blocks: LruCache<Segment, readonly string[]>;
  #segments = new ListSegments();
  /** queries for the ids of segments, by the ids between which they are and the last change there */
  readonly #loading = new SingleFlight<string[]>(Infinity, isQueueFull);
  /** ids inserted or deleted while a segment is being divided */
  #moved: string[] | undefined;
  /** the query that counts or divides segments at present */
  #step: Promise<void> | undefined;
  #isPreparing = false;

  /** Caches at most `maxBytes` of ids. While `mayServe` returns false, pages are queried. */
  constructor(source: ListSource, maxBytes: number, mayServe = () => true, retryMs = DIVIDE_AGAIN_MS) {
    this.maxBytes = maxBytes;
    this.#source = source;
    this.#mayServe = mayServe;
    this.#retryMs = retryMs;
    this.#blocks = new LruCache(maxBytes, bytesOf);
  }

  /** Divides the list in the background, once: a million hotels take some seconds. */
  prepare(): void {
    if (!this.#isPreparing) void this.#prepare();
  }

  /** Handles the insert or delete of a hotel with this id. */
  moved(id: string): void {
    this.#moved?.push(id);
    this.#blocks.drop(this.#segments.moved(id));
  }

  /** Invalidates the whole index. */
  forget(): void {
    const { tick } = this.#segments;
    this.#segments = new ListSegments();
    this.#segments.tick = tick + 1;
    this.#loading.clear();
    this.#blocks.clear();
  }

  /** Returns the page at `offset` if all of it is cached. */
  cachedPage(offset: number, limit: number): Page | undefined {
    if (!this.#mayServe()) return undefined;
    const segments = this.#segments;
    const { segment, skip } = segments.at(offset);
    if (!segments.isExactBefore(segment, segments.tick)) return undefined;
    const ids: string[] = [];
    let from = skip;
    for (let each: Segment | undefined = segment; each; each = segments.after(each)) {
      const block = this.#blocks.get(each);
      if (!block) return undefined;
      for (let i = from; i < block.length; i++) {
        if (ids.length === limit) return { ids, more: true, total: segments.total };
        ids.push(block[i]!);
      }
      from = 0;
    }
    return { ids, more: false, total: segments.total };
  }

  /**
   * Returns the page at `offset`. `owner`: the API key whose share its queries use; those that count positions are shared by
   * all. `mustQuery`: its ids are queried, because changes are known to be missing here. Throws `Unavailable`, also if
   * positions cannot be counted in time.
   */
  async page(offset: number, limit: number, owner: string, mustQuery = false): Promise<Page> {
    if (!this.#mayServe()) return queryPage(this.#source, MAX_SKIPPED_IDS, offset, limit, owner);
    const { tick, firstLong } = this.#segments;
    if (firstLong) this.prepare();
    const untilMs = monotonicMs() + MAX_COUNTING_MS;
    while (true) {
      const { segment, skip } = this.#segments.at(offset);
      if (this.#segments.isExactBefore(segment, tick)) {
        const page = await this.#read(segment, skip, limit, owner, mustQuery);
        if (page) return page;
      }
      if (monotonicMs() > untilMs)
        throw new Unavailable('the positions of the list are being counted', 'postgres_timeout');
      // if a segment was replaced meanwhile, the others are tried at once
      if (this.#segments.has(segment)) await this.#advance(true);
    }
  }

  /** Returns undefined if a segment was replaced meanwhile, or is too long. */
  async #read(
    segment: Segment,
    skip: number,
    limit: number,
    owner: string,
    mustQuery: boolean,
  ): Promise<Page | undefined> {
    const segments = this.#segments;
    const ids: string[] = [];
    let from = skip;
    for (let each: Segment | undefined = segment; each && ids.length <= limit; each = segments.after(each)) {
      const block =
        each.isLong || mustQuery ? undefined : (this.#blocks.get(each) ?? (await this.#load(each, owner)));
      if (segments !== this.#segments || !segments.has(each)) return undefined;
      if (block) for (const id of from === 0 ? block : block.slice(from)) ids.push(id);
      else {
        if (from > MAX_SKIPPED_IDS) return undefined;
        const start = each.start?.toString() ?? null;
        ids.push(...(await this.#source.idsFrom(start, from, limit + 1 - ids.length, owner)));
        break;
      }
      from = 0;
    }
    return { ids: ids.slice(0, limit), more: ids.length > limit, total: segments.total };
  }

  /** Returns the ids of a segment, and caches them; undefined if it is too long. Throws `Unavailable`. */
  async #load(each: Segment, owner: string): Promise<string[] | undefined> {
    const segments = this.#segments;
    const bounds = boundsOf(segments, each);
    const ids = await this.#loading.run(JSON.stringify([bounds, each.movedAt]), owner, async () => {
      const { tick } = segments;
      const found = await this.#source.idsBetween(...bounds, MAX_COUNT + 1, owner);
      if (segments === this.#segments && segments.counted(each, found.length, tick))
        this.#blocks.put(each, found);
      return found;
    });
    if (ids.length <= MAX_COUNT) return ids;
    this.prepare();
    return undefined;
  }

  async #prepare(): Promise<void> {
    this.#isPreparing = true;
    for (let failures = 0; this.#segments.firstLong && failures <= MAX_FAILURES; ) {
      try {
        await this.#advance(false);
        failures = 0;
      } catch {
        failures++;
        await pause(this.#retryMs);
      }
    }
    this.#isPreparing = false;
  }

  /**
   * Counts invalid segments (with `mayCount`) or divides a long one, by one bounded query for all that wait for it. Throws
   * `Unavailable`.
   */
  #advance(mayCount: boolean): Promise<void> {
    if (!this.#step) {
      const uncounted = mayCount ? this.#segments.uncounted(COUNTS_PER_QUERY) : [];
      const long = this.#segments.firstLong;
      const step =
        uncounted.length > 0 ? this.#count(uncounted) : long ? this.#divide(long) : nextIteration();
      this.#step = step.finally(() => {
        this.#step = undefined;
      });
    }
    return this.#step;
  }

  async #count(uncounted: Segment[]): Promise<void> {
    const segments = this.#segments;
    const { tick } = segments;
    const bounds = uncounted.map((each) => boundsOf(segments, each));
    const counts = await this.#source.countBetween(
      bounds.map(([from]) => from),
      bounds.map(([, to]) => to),
      MAX_COUNT + 1,
    );
    if (segments !== this.#segments) return;
    for (const [i, each] of uncounted.entries()) segments.counted(each, counts[i]!, tick);
  }

  async #divide(long: Segment): Promise<void> {
    const segments = this.#segments;
    const { tick } = segments;
    this.#moved = [];
    try {
      const [from, to] = boundsOf(segments, long);
      const found = await this.#source.startsAfter(from, STRIDE, STARTS_PER_QUERY);
      if (segments !== this.#segments) return;
      const end = to === null ? undefined : Buffer.from(to);
      const starts = found.map((id) => Buffer.from(id)).filter((id) => !end || Buffer.compare(id, end) < 0);
      const isWhole = starts.length < STARTS_PER_QUERY;
      segments.divide(long, starts, isWhole, this.#moved, tick);
    } finally {
      this.#moved = undefined;
    }
  }
}

/** Returns the start of a segment and that of the next one. */
function boundsOf(segments: ListSegments, each: Segment): [from: string | null, to: string | null] {
  return [each.start?.toString() ?? null, segments.after(each)?.start?.toString() ?? null];
}

function bytesOf(ids: readonly string[]): number {
  let bytes = STRING_BYTES;
  for (const { length } of ids) bytes += STRING_BYTES + 2 * length;
  return bytes;
}
