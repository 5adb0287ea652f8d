import { setTimeout as wait } from 'node:timers/promises';
import { Unavailable } from '../errors.ts';
import { IdBlocks } from './id-blocks.ts';
import type { HotelRepository } from './repository.ts';
import { type Stretch, Stretches } from './stretches.ts';

/** Number of marks that one query finds; it must end within its deadline. */
const MARKS_PER_QUERY = 50;
/** Number of stretches that one query counts. */
const COUNTS_PER_QUERY = 50;
/** Maximum number of ids that the query of a request skips: 20,000 take about 3 ms. */
export const MAX_SKIP = 20_000;
/** Maximum time that a request waits for positions that are being counted. */
const MAX_WAIT_MS = 1_000;
/** Pause after a failure, before the counting is resumed. */
const TRY_AGAIN_MS = 250;
const MAX_FAILURES = 20;

/** The list in PostgreSQL. */
export type ListSource = Pick<HotelRepository, 'idsFrom' | 'idsBetween' | 'marksAfter' | 'countBetween'>;

/** Page of the list: ids in byte order, and whether more follow. */
export interface Page {
  ids: readonly string[];
  more: boolean;
  /** number of hotels in the list, if it is known without a query */
  total?: number | undefined;
}

/**
 * Index of the list by position. The list is divided into stretches of about 200 ids, with their counts and the ids of
 * those read last. An insert or a delete invalidates its stretch only, which is counted or read again before its next
 * use. Pages are exact for all received changes, in any order, and no query grows with the table.
 */
export class PageIndex {
  /** maximum bytes of the cached ids */
  readonly maxBytes: number;
  readonly #repository: ListSource;
  readonly #tryAgainMs: number;
  readonly #blocks: IdBlocks<Stretch>;
  #stretches = new Stretches();
  readonly #loading = new Map<Stretch, { tick: number; ids: Promise<string[]> }>();
  /** ids inserted or deleted while a stretch is being divided */
  #moved: string[] | undefined;
  #isSettling = false;
  #progress = Promise.withResolvers<void>();
  #waiting = 0;

  constructor(origin: ListSource, maxBytes: number, tryAgainMs = TRY_AGAIN_MS) {
    this.maxBytes = maxBytes;
    this.#repository = origin;
    this.#tryAgainMs = tryAgainMs;
    this.#blocks = new IdBlocks(maxBytes);
    this.#progress.promise.catch(() => {});
  }

  /** Bytes of the cached ids. */
  get heldBytes(): number {
    return this.#blocks.bytes;
  }

  /** Divides the list in the background, once: a million hotels take some seconds. */
  prepare(): void {
    if (!this.#isSettling) void this.#settle();
  }

  /** Handles the insert or delete of a hotel with this id. */
  moved(id: string): void {
    this.#moved?.push(id);
    this.#blocks.drop(this.#stretches.moved(id));
  }

  /** Invalidates the whole index. */
  forget(): void {
    const { tick } = this.#stretches;
    this.#stretches = new Stretches();
    this.#stretches.tick = tick + 1;
    this.#loading.clear();
    this.#blocks.clear();
  }

  /** Returns the page at `offset` if all of it is cached. */
  held(offset: number, limit: number): Page | undefined {
    const stretches = this.#stretches;
    const { stretch, skip } = stretches.at(offset);
    if (!stretches.isExactBefore(stretch, stretches.tick)) return undefined;
    const ids: string[] = [];
    let from = skip;
    for (let each: Stretch | undefined = stretch; each; each = stretches.after(each)) {
      const block = this.#blocks.get(each);
      if (!block) return undefined;
      for (let i = from; i < block.length; i++) {
        if (ids.length === limit) return { ids, more: true, total: stretches.total };
        ids.push(block[i]!);
      }
      from = 0;
    }
    return { ids, more: false, total: stretches.total };
  }

  /** Returns the page at `offset`. Throws `Unavailable`, also if positions cannot be counted in time. */
  async page(offset: number, limit: number): Promise<Page> {
    const { tick, firstLong } = this.#stretches;
    if (firstLong) this.prepare();
    const untilMs = performance.now() + MAX_WAIT_MS;
    while (true) {
      const { stretch, skip } = this.#stretches.at(offset);
      if (this.#stretches.isExactBefore(stretch, tick)) {
        const page = await this.#read(stretch, skip, limit);
        if (page) return page;
      }
      if (performance.now() > untilMs)
        throw new Unavailable('the positions of the list are being counted', {
          rejection: 'postgres_timeout',
        });
      // if a stretch was replaced meanwhile, the others are tried at once
      if (this.#stretches.has(stretch)) await this.#nextProgress(untilMs);
    }
  }

  /** Returns undefined if a stretch was replaced meanwhile, or is too long. */
  async #read(stretch: Stretch, skip: number, limit: number): Promise<Page | undefined> {
    const stretches = this.#stretches;
    const ids: string[] = [];
    let from = skip;
    for (let each: Stretch | undefined = stretch; each && ids.length <= limit; each = stretches.after(each)) {
      const block = each.isLong ? undefined : (this.#blocks.get(each) ?? (await this.#load(each)));
      if (stretches !== this.#stretches || !stretches.has(each)) return undefined;
      if (block) for (const id of from === 0 ? block : block.slice(from)) ids.push(id);
      else {
        if (from > MAX_SKIP) return undefined;
        const mark = each.mark?.toString() ?? null;
        ids.push(...(await this.#repository.idsFrom(mark, from, limit + 1 - ids.length)));
        break;
      }
      from = 0;
    }
    return { ids: ids.slice(0, limit), more: ids.length > limit, total: stretches.total };
  }

  /** Returns the ids of a stretch; undefined if it is too long. Throws `Unavailable`. */
  async #load(each: Stretch): Promise<string[] | undefined> {
    const stretches = this.#stretches;
    let loading = this.#loading.get(each);
    if (!loading || loading.tick < each.movedAt) {
      const { tick, maxCount } = stretches;
      const ids = this.#repository.idsBetween(...boundsOf(stretches, each), maxCount + 1);
      const begun = { tick, ids };
      loading = begun;
      this.#loading.set(each, begun);
      const end = () => {
        if (this.#loading.get(each) === begun) this.#loading.delete(each);
      };
      ids.then((found) => {
        if (stretches === this.#stretches && stretches.counted(each, found.length, tick))
          this.#blocks.put(each, found);
        end();
      }, end);
    }
    const { maxCount } = stretches;
    const ids = await loading.ids;
    if (ids.length <= maxCount) return ids;
    this.prepare();
    return undefined;
  }

  /** Resolves after the next count; rejects if PostgreSQL is unavailable. */
  async #nextProgress(untilMs: number): Promise<void> {
    this.#waiting++;
    const { promise } = this.#progress;
    this.prepare();
    const late = new AbortController();
    try {
      const remainingMs = Math.max(0, untilMs - performance.now());
      await Promise.race([promise, wait(remainingMs, undefined, { signal: late.signal })]);
    } finally {
      late.abort();
      this.#waiting--;
    }
  }

  /** Divides long stretches, and counts invalid ones while requests wait for them, by sequential bounded queries. */
  async #settle(): Promise<void> {
    this.#isSettling = true;
    for (let failures = 0; failures <= MAX_FAILURES; ) {
      const doubtful = this.#waiting > 0 ? this.#stretches.doubtful(COUNTS_PER_QUERY) : [];
      const long = this.#stretches.firstLong;
      if (doubtful.length === 0 && !long) break;
      try {
        if (doubtful.length > 0) await this.#count(doubtful);
        else await this.#divide(long!);
        failures = 0;
        this.#progressed();
      } catch (error) {
        failures++;
        this.#progressed(error);
        await wait(this.#tryAgainMs);
      }
    }
    this.#isSettling = false;
  }

  #progressed(error?: unknown): void {
    const { resolve, reject } = this.#progress;
    this.#progress = Promise.withResolvers();
    this.#progress.promise.catch(() => {});
    if (error === undefined) resolve();
    else reject(error);
  }

  async #count(doubtful: Stretch[]): Promise<void> {
    const stretches = this.#stretches;
    const { tick, maxCount } = stretches;
    const bounds = doubtful.map((each) => boundsOf(stretches, each));
    const counts = await this.#repository.countBetween(
      bounds.map(([from]) => from),
      bounds.map(([, to]) => to),
      maxCount + 1,
    );
    if (stretches !== this.#stretches) return;
    for (const [i, each] of doubtful.entries()) stretches.counted(each, counts[i]!, tick);
  }

  async #divide(long: Stretch): Promise<void> {
    const stretches = this.#stretches;
    const { stride } = stretches;
    this.#moved = [];
    try {
      const [from, to] = boundsOf(stretches, long);
      const found = await this.#repository.marksAfter(from, stride, MARKS_PER_QUERY);
      if (stretches !== this.#stretches) return;
      const end = to === null ? undefined : Buffer.from(to);
      const marks = found.map((id) => Buffer.from(id)).filter((id) => !end || Buffer.compare(id, end) < 0);
      const isWhole = marks.length < MARKS_PER_QUERY;
      stretches.divide(long, marks, stride, isWhole, this.#moved);
    } finally {
      this.#moved = undefined;
    }
  }
}

/** Returns the mark of a stretch and that of the next one. */
function boundsOf(stretches: Stretches, each: Stretch): [from: string | null, to: string | null] {
  return [each.mark?.toString() ?? null, stretches.after(each)?.mark?.toString() ?? null];
}
