import { type HotelReader, MAX_JOINED } from '../cache/hotel-reader.ts';
import type { LocalCache } from '../cache/local-cache.ts';
import type { RedisBatchReader } from '../cache/redis-batch/redis-batch.ts';
import type { Collections } from '../collections/collections.ts';
import { Unavailable } from '../errors.ts';
import type { Found } from '../hotels/entry.ts';
import { type HotelSizes, sumOf } from '../hotels/hotel-sizes.ts';
import { EMPTY_ARRAY } from '../hotels/json-array.ts';
import type { Namespace } from '../hotels/namespace.ts';
import type { PageIndex } from '../hotels/page-index.ts';
import { monotonicMs, nextIteration } from '../lib/clock.ts';
import type { EventLoop } from '../lib/event-loop.ts';
import { HeldBytes } from '../lib/held-bytes.ts';
import { Turns } from '../lib/turns.ts';
import { MAX_RESPONSE_BYTES } from '../wasm/constants.ts';
import { type AccessControl, CHANGED, MAX_UNSENT_MS, mayStillSee } from './access-control.ts';
import type { Exchange } from './exchange.ts';

/** Bytes of hotels that are read in one iteration of the event loop. */
const PART_BYTES = 2 * 1024 * 1024;
/** Number of hotels of the maximum size, 64 KiB, that `PART_BYTES` hold. */
const MIN_PART = 32;
/** Maximum time of a batch that takes turns, its wait included. */
const MAX_MS = 5_000;
/** Maximum number of batches that a new one may wait for, those of other keys by their shares. */
const MAX_BEFORE = 16;
/** Maximum number of bytes of hits that waiting requests hold: in all, and of one key. */
const MAX_HITS_BYTES = 128 * 1024 * 1024;
const MAX_HITS_BYTES_OF_KEY = MAX_HITS_BYTES / 2;

/** Parts of a worker from which the operations read hotels. */
export interface HotelSources {
  local: LocalCache;
  misses: Misses;
  /** completes the last lookup in the local cache, whose way is `redis`; undefined without Redis */
  redisBatch: RedisBatchReader | undefined;
  pageIndex: PageIndex;
  collections: Collections;
  sizes: HotelSizes;
  access: Pick<AccessControl, 'authorize' | 'mayAnswerNow' | 'mayStillAnswer'>;
  eventLoop: EventLoop;
}

/**
 * How the misses of a request are read. `redis`: completed by WebAssembly from the replies of Redis. `lookup`: looked up in
 * Redis, then in PostgreSQL. `rest`: looked up in PostgreSQL alone, because Redis has just been read. `turns`: by lookups one
 * after the other.
 */
export type Way = 'redis' | 'lookup' | 'rest' | 'turns';

interface MissesOptions {
  reader: HotelReader;
  /** undefined without Redis */
  redisBatch: RedisBatchReader | undefined;
  collections: Collections;
  sizes: HotelSizes;
  access: Pick<AccessControl, 'mayStillAnswer'>;
}

/**
 * Reads the hotels that the local cache lacks, and decides how. Those of batches that are too large to be read at once are read in
 * turns: of one batch at a time, in parts, each in an iteration of the event loop of its own. So a worker holds the hotels of
 * one unfinished batch. API keys take turns.
 */
export class Misses {
  readonly #options: MissesOptions;
  readonly #turns = new Turns(1, 1, 1);
  /** of the hits of the requests that wait */
  readonly #hits = new HeldBytes<Exchange>();

  constructor(options: MissesOptions) {
    this.#options = options;
  }

  /** Returns how to read so many misses of a batch. `isLarge`: not all of its hits have room in a response. */
  wayOf({ principal }: Exchange, hotels: number, isLarge = false): Way {
    const { redisBatch, sizes } = this.#options;
    const { keyId, collection } = principal!;
    if (isLarge || hotels > sizes.atOnce(keyId, MAX_RESPONSE_BYTES)) return 'turns';
    return collection === null && hotels > MAX_JOINED && redisBatch?.isUsable ? 'redis' : 'lookup';
  }

  /**
   * Returns the hotels that have these keys and that the request's key may see, else null; undefined if the request is over or
   * answered, because its key was revoked meanwhile. `hitsBytes` of the response are held meanwhile. Throws `Unavailable`.
   */
  async load(
    exchange: Exchange,
    namespace: Namespace,
    keys: readonly string[],
    way: Way = 'lookup',
    hitsBytes = 0,
  ): Promise<Found[] | undefined> {
    const { reader, collections, access, sizes } = this.#options;
    const before = exchange.principal!;
    const { keyId, collection } = before;
    const beganMs = monotonicMs();
    // large hotels wait in their queue, although Redis is then read again
    if (way === 'rest' && sizes.areLarge(keyId)) way = 'lookup';
    // a wait for large hotels of this key takes no place among the loads of all
    if (way === 'turns' || (way === 'lookup' && reader.mustWait(keyId))) this.#hold(exchange, hitsBytes);
    const loading =
      way === 'turns'
        ? this.#loadInTurns(exchange, namespace, keys, beganMs + MAX_MS)
        : reader.load(namespace, keys, keyId, collection, way === 'rest' ? false : undefined);
    let found = await loading.finally(() => this.#hits.delete(exchange));
    if (!found) return undefined;
    if (collection !== null && monotonicMs() - beganMs > MAX_UNSENT_MS) {
      // the hits may have left the collection
      if (hitsBytes > EMPTY_ARRAY.length) throw CHANGED;
      found = await collections.onlyMembers(collection, found, keyId);
    }
    if (monotonicMs() - exchange.startedAtMs < MAX_UNSENT_MS) return found;
    return (await mayStillSee(access, exchange, before)) ? found : undefined;
  }

  /** Lets other loads begin, and holds what the request has found. Throws `Unavailable` beyond the bounds. */
  #hold(exchange: Exchange, hitsBytes: number): void {
    const { owner } = exchange;
    exchange.releaseLoad?.();
    const isBeyond =
      this.#hits.total + hitsBytes > MAX_HITS_BYTES ||
      this.#hits.bytesOf(owner) + hitsBytes > MAX_HITS_BYTES_OF_KEY;
    if (isBeyond) throw tooLate();
    this.#hits.set(exchange, owner, hitsBytes);
  }

  async #loadInTurns(
    exchange: Exchange,
    namespace: Namespace,
    keys: readonly string[],
    untilMs: number,
  ): Promise<Found[] | undefined> {
    const { reader, access, sizes } = this.#options;
    const before = exchange.principal!;
    const { keyId, collection } = before;
    if (this.#turns.waiting.sizeBefore(keyId) >= MAX_BEFORE) throw tooLate();
    return this.#turns.run(keyId, 1, async () => {
      const found: Found[] = [];
      let bytes = 0;
      for (let count = MIN_PART; ; ) {
        // a part that caches hold is read at once
        await nextIteration();
        if (exchange.over || !(await mayStillSee(access, exchange, before))) return undefined;
        if (monotonicMs() > untilMs) throw tooLate('a batch of large hotels took too long');
        if (found.length === keys.length) return found;
        const part = keys.slice(found.length, found.length + count);
        // joined with others, they would hold the memory of all while they wait for a slow client
        const hotels = await reader.load(namespace, part, keyId, collection, true);
        found.push(...hotels);
        const read = sumOf(hotels);
        sizes.note(keyId, ...read);
        bytes += read[1];
        const ofSize = Math.floor((PART_BYTES * found.length) / bytes);
        count = Math.max(MIN_PART, Math.min(MAX_JOINED, ofSize, sizes.atOnce(keyId, PART_BYTES)));
      }
    });
  }
}

function tooLate(message = 'more batches of large hotels wait than can be answered in time'): Unavailable {
  return new Unavailable(message, 'overload');
}
