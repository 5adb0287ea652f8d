import { Unavailable } from '../errors.ts';
import type { Found } from '../hotels/entry.ts';
import type { IdList } from '../hotels/id-list.ts';
import { monotonicMs, nextIteration, pause, wallMs } from '../lib/clock.ts';
import { DeadlineExceeded, withDeadline } from '../lib/deadline.ts';
import type { HotelReader } from './hotel-reader.ts';
import type { LocalCache } from './local-cache.ts';
import type { RedisBatchReader } from './redis-batch/redis-batch.ts';

/** Maximum number of hotels per load, and of their bytes, by the size of those before. A worker has one load in progress. */
const MAX_LOAD_COUNT = 500;
const MAX_LOAD_BYTES = 2 * 1024 * 1024;
/** Minimum number: each may have 64 KiB. The first load has it. */
const MIN_LOAD_COUNT = 32;
/** Loads before the code is compiled. */
const COLD_LOADS = 2;
/** Bytes of the cache for each hotel of a load: the last load fits into the 1/32 that a full cache leaves free. */
const BYTES_PER_LOADED = 128 * 1024;
/** Hotels per second of an instance: a sixth of what one core of Redis reads. */
const MAX_PER_SECOND = 100_000;
/** Repetitions after which V8 has compiled the batch paths. */
const LOOKUPS = 200;
const LOOKUPS_PER_ITERATION = 5;
const REDIS_BATCHES = 10;
/** Maximum number of hotels that are counted. A longer list counts as one of so many. */
const MAX_COUNTED = 1_000_000;
/** Maximum number of hotels that are skipped on the way to a worker's start. */
const MAX_SKIPPED = 500_000;
/** Share of the list that a second of the warm-up must add: as many more of the later lookups are hits. */
const MIN_GAIN = 1 / 20;
const GAIN_OVER_MS = 1_000;
const CURRENT_RETRY_MS = 50;

type WarmUpEnd =
  | 'complete'
  | 'full'
  /** of a list much larger than what it can load in time */
  | 'small gain'
  | 'timeout'
  | 'slow'
  | 'unavailable'
  | 'stopped'
  | 'failed';

export interface WarmUpResult {
  /** hotels loaded */
  hotels: number;
  tookMs: number;
  end: WarmUpEnd;
  /** message of the error that ended it */
  reason?: string | undefined;
}

/** Parts of a worker that are warmed. */
interface WarmUpOptions {
  local: Pick<LocalCache, 'arena'>;
  reader: Pick<HotelReader, 'load'>;
  list: Pick<IdList, 'idsFrom' | 'countBetween'>;
  /** undefined without Redis */
  redisBatch: RedisBatchReader | undefined;
  /** maximum time of a load in ms: a slower one shows that PostgreSQL or Redis has no capacity to spare */
  slowMs: number;
  isCurrent: () => boolean;
  isStopping: () => boolean;
  /** number of the worker, from 1, and of all */
  number: number;
  workers: number;
}

/**
 * Fills the local cache of a worker before its port opens, in the order of the list. Each hotel is read like one that a request
 * misses, with the same checks: from Redis, else from PostgreSQL.
 */
export class WarmUp {
  readonly #options: WarmUpOptions;
  readonly #maxCount: number;
  #loadCount: number;
  #hotels = 0;

  constructor(options: WarmUpOptions) {
    this.#options = options;
    const { maxBytes } = options.local.arena.stats();
    this.#maxCount = Math.min(MAX_LOAD_COUNT, Math.ceil(maxBytes / BYTES_PER_LOADED));
    this.#loadCount = Math.min(MIN_LOAD_COUNT, this.#maxCount);
  }

  /**
   * Warms until the cache is full, every hotel is loaded, a second more would make no difference, or `timeoutMs` is over.
   * Never rejects.
   */
  async run(timeoutMs: number): Promise<WarmUpResult> {
    const beganMs = monotonicMs();
    const untilMs = beganMs + timeoutMs;
    let reason: string | undefined;
    const end = await withDeadline(this.#fill(untilMs), timeoutMs).catch((error: Error): WarmUpEnd => {
      if (error instanceof DeadlineExceeded) return 'timeout';
      if (error instanceof Unavailable || this.#options.isStopping()) return 'unavailable';
      // requests for other hotels may succeed
      reason = error.message;
      return 'failed';
    });
    return { hotels: this.#hotels, tookMs: monotonicMs() - beganMs, end, reason };
  }

  async #fill(untilMs: number): Promise<WarmUpEnd> {
    const { reader, workers, local, slowMs, isCurrent, isStopping } = this.#options;
    const msPerHotel = (1_000 * workers) / MAX_PER_SECOND;
    const listed = this.#count();
    let loads = 0;
    /** hotels loaded before the running second, which ends then */
    let second = { hotels: 0, endsAtMs: Infinity };
    for await (const ids of this.#ids(listed)) {
      // while the log is not followed, Redis is not read, and values are served for seconds only
      while (!isCurrent() && !isStopping() && monotonicMs() < untilMs) await pause(CURRENT_RETRY_MS);
      if (isStopping()) return 'stopped';
      const beganMs = monotonicMs();
      if (beganMs >= untilMs) return 'timeout';
      if (!local.arena.hasRoom) return 'full';
      if (beganMs >= second.endsAtMs) {
        if (this.#hotels - second.hotels < MIN_GAIN * (await listed)) return 'small gain';
        second = { hotels: this.#hotels, endsAtMs: beganMs + GAIN_OVER_MS };
      }
      const found = await reader.load('id', ids, '');
      this.#hotels += ids.length;
      const tookMs = monotonicMs() - beganMs;
      if (++loads > COLD_LOADS && tookMs > slowMs) return 'slow';
      if (loads === COLD_LOADS) {
        await this.#compile(found);
        second = { hotels: this.#hotels, endsAtMs: monotonicMs() + GAIN_OVER_MS };
      }
      this.#setCount(found);
      await pause(Math.max(0, ids.length * msPerHotel - tookMs));
    }
    return 'complete';
  }

  /** Sets the number of hotels of the next load by the size of these. */
  #setCount(found: Found[]): void {
    const bytes = found.reduce((sum, hotel) => sum + (hotel?.bytes.length ?? 0), 0);
    const fit = Math.max(MIN_LOAD_COUNT, Math.floor((MAX_LOAD_BYTES * found.length) / bytes));
    this.#loadCount = Math.min(fit, this.#maxCount);
  }

  /** Yields the ids of the list, each once. */
  async *#ids(listed: Promise<number>): AsyncGenerator<string[]> {
    const { list } = this.#options;
    const start = await this.#startInList(listed);
    const startBytes = Buffer.from(start ?? '');
    const isBehindStart = (id: string) => Buffer.compare(Buffer.from(id), startBytes) >= 0;
    for (let mark = start, hasWrapped = start === null; ; ) {
      const count = this.#loadCount;
      const listed = await list.idsFrom(mark, mark === null || mark === start ? 0 : 1, count);
      const end = hasWrapped && start !== null ? listed.findIndex(isBehindStart) : -1;
      const ids = end < 0 ? listed : listed.slice(0, end);
      if (ids.length > 0) yield ids;
      if (end >= 0) return;
      if (listed.length === count) mark = listed.at(-1)!;
      else if (hasWrapped) return;
      else {
        hasWrapped = true;
        mark = null;
      }
    }
  }

  /** Returns the number of hotels in the list, at most `MAX_COUNTED`; also `MAX_COUNTED` if the count fails. */
  #count(): Promise<number> {
    const counts = this.#options.list.countBetween([null], [null], MAX_COUNTED);
    return counts.then(
      ([count]) => count!,
      () => MAX_COUNTED,
    );
  }

  /** Returns the id at which this worker begins: with each at another place, one finds in Redis what others loaded. */
  async #startInList(listed: Promise<number>): Promise<string | null> {
    const { list, number, workers } = this.#options;
    if (number === 1) return null;
    const skip = Math.floor((Math.min(await listed, MAX_SKIPPED) * (number - 1)) / workers);
    return (await list.idsFrom(null, skip, 1))[0] ?? null;
  }

  /** Runs the batch paths on hotels of the local cache until they are compiled. */
  async #compile(found: Found[]): Promise<void> {
    const { local, redisBatch } = this.#options;
    const ids = found.map((hotel) => hotel?.channelId).filter((id) => typeof id === 'string');
    if (ids.length === 0) return;
    const body = Buffer.from(JSON.stringify({ channel_ids: ids }));
    for (let i = 0; i < LOOKUPS; i++) {
      // not counted: these are no requests
      local.arena.gather('channel', body, i % 2 === 0 ? 'full' : 'narrow', 0, 0, wallMs());
      if (i % LOOKUPS_PER_ITERATION === 0) await nextIteration();
    }
    for (let i = 0; i < REDIS_BATCHES; i++) {
      const missed = local.arena.gather('channel', body, 'full', 0, Infinity);
      await redisBatch?.complete('channel', missed, 'full', () => {});
    }
  }
}
