import type { IdList } from '../hotels/id-list.ts';
import { monotonicMs, pause } from '../lib/clock.ts';
import { DeadlineExceeded, withDeadline } from '../lib/deadline.ts';
import type { HotelReader } from './hotel-reader.ts';
import type { LocalCache } from './local-cache.ts';

/** Maximum number of hotels per load, and of their bytes, by the size of those before. A worker has one load in progress. */
const MAX_LOAD_COUNT = 500;
const MAX_LOAD_BYTES = 2 * 1024 * 1024;
/** Hotels of the first load: each may have 64 KiB. */
const FIRST_LOAD_COUNT = 32;
/** Hotels per ms of an instance: a sixth of what one core of Redis reads. */
const MAX_PER_MS = 100;
/** The list is too long if it is this many times as long as what has been loaded after this time. */
const LONG_LIST = 20;
const TRIED_MS = 1_000;
/** More take PostgreSQL longer than its deadline. */
const MAX_SKIPPED = 1_000_000;
const CURRENT_RETRY_MS = 50;

/** Parts of a worker that are warmed. */
interface WarmUpOptions {
  local: Pick<LocalCache, 'arena'>;
  reader: Pick<HotelReader, 'load'>;
  list: Pick<IdList, 'ids'>;
  isCurrent: () => boolean;
  isStopping: () => boolean;
  /** of the instance */
  workers: number;
}

/**
 * Fills the local cache of a worker before its port opens, in the order of the list, until it is full, every hotel is loaded, the
 * list proves too long, or `timeoutMs` is over. Each hotel is read like one that a request misses, with the same checks: from
 * Redis, else from PostgreSQL. Returns the number of hotels, and why it ended. Never rejects.
 */
export async function warmUp(
  options: WarmUpOptions,
  timeoutMs: number,
): Promise<[hotels: number, end: string]> {
  const { local, reader, list, isCurrent, isStopping, workers } = options;
  const untilMs = monotonicMs() + timeoutMs;
  const isOver = () => isStopping() || monotonicMs() >= untilMs;
  let hotels = 0;
  const fill = async () => {
    let mark: string | null = null;
    let triedAtMs: number | undefined;
    for (let count = FIRST_LOAD_COUNT; !isOver(); ) {
      if (!local.arena.hasRoom) return 'full';
      const ids: string[] = await list.ids([mark, null], mark === null ? 0 : 1, count);
      // while the log is not followed, Redis is not read, and values are served for seconds only
      while (!isCurrent() && !isOver()) await pause(CURRENT_RETRY_MS);
      const minMs = (ids.length * workers) / MAX_PER_MS;
      const [found] = await Promise.all([reader.load('id', ids, ''), pause(minMs)]);
      hotels += ids.length;
      // the first load compiles the code
      triedAtMs ??= monotonicMs() + TRIED_MS;
      if (ids.length < count) return 'complete';
      if (monotonicMs() >= triedAtMs) {
        if ((await list.ids([null, null], Math.min(LONG_LIST * hotels, MAX_SKIPPED), 1)).length > 0)
          return 'long list';
        triedAtMs = Infinity;
      }
      const bytes = found.reduce((sum, hotel) => sum + (hotel?.bytes.length ?? 0), 1);
      count = Math.min(MAX_LOAD_COUNT, Math.ceil((MAX_LOAD_BYTES * count) / bytes));
      mark = ids.at(-1)!;
    }
    return isStopping() ? 'stopped' : 'late';
  };
  const end = await withDeadline(fill(), timeoutMs).catch((error: Error) =>
    error instanceof DeadlineExceeded ? 'late' : `failed: ${error.message}`,
  );
  return [hotels, end];
}
