import type { View } from '../../hotels/entry.ts';
import { EMPTY_ARRAY } from '../../hotels/json-array.ts';
import { type Namespace, numberOf } from '../../hotels/namespace.ts';
import { monotonicMs } from '../../lib/clock.ts';
import type { ReplyReader } from '../../redis/reply-parser.ts';
import type { RedisStore } from '../../redis/store.ts';
import { type BatchLookup, OK } from '../arena/batch-lookup.ts';
import type { CountLookups } from '../hotel-loader.ts';
import type { LocalCache } from '../local-cache.ts';
import type { CacheMemory } from '../memory.ts';
import type { PartialResponse } from '../partial-response.ts';
import type { RedisHotelCache } from '../redis-hotel-cache.ts';
import { EntryStream } from './entry-stream.ts';
import { PendingKeys } from './pending-keys.ts';
import { PointersReader } from './pointers-reader.ts';

/** Result of `requestPointers` for keys that are left to the reader. */
const NOT_READ = -1;

/** Callback with the response; its bytes are valid until the call returns. */
type Finish = (result: Uint8Array | PartialResponse) => void | Promise<void>;

interface RedisBatchOptions {
  redis: RedisStore;
  cache: RedisHotelCache;
  /** its lookups are completed, and it is filled with what Redis returns */
  local: LocalCache;
  /** that of the local cache; its window must be current while `mayRead` returns true */
  memory: CacheMemory;
  /** returns false while what Redis holds may be outdated; every batch is then declined, and nothing is stored */
  mayRead: () => boolean;
  count: CountLookups;
}

/**
 * Completes batches, of which the local cache held a part or nothing, directly from the replies of Redis. WebAssembly turns the
 * missed keys into the MGET of pointers, these into the MGET of entries, and these into the response, without an object for
 * each hotel. A miss, an outdated pointer, a corrupt or outdated value stays a gap, which the reader fills.
 *
 * Entries and absences are compared with the window (log/window.ts) and stored in the local cache in one synchronous step,
 * so no change is applied in between; a later change drops them there.
 */
export class RedisBatchReader {
  readonly #options: RedisBatchOptions;
  readonly #memory: CacheMemory;

  constructor(options: RedisBatchOptions) {
    this.#options = options;
    this.#memory = options.memory;
  }

  /**
   * Completes the last lookup in the local cache with the hotels that Redis returns. Returns undefined if Redis is not usable, if
   * a key is not plain, or if the response is too large. Rejects with the error of `finish`.
   */
  complete(namespace: Namespace, lookup: BatchLookup, view: View, finish: Finish): Promise<void> | undefined {
    if (lookup.status !== OK || !this.#options.mayRead()) return undefined;
    const hits = lookup.hits === 0 ? EMPTY_ARRAY : this.#memory.takeHits(lookup.output);
    if (!hits) return undefined;
    const prefixLength = this.#memory.writePrefix(this.#options.cache.prefixOf(namespace));
    const { wasm } = this.#memory;
    const count = wasm.requestPointers(lookup.misses, numberOf(namespace), prefixLength);
    if (count === NOT_READ) {
      this.#memory.releaseHits(hits);
      return undefined;
    }
    const pending = new PendingKeys(namespace, count, this.#memory.takePending(), hits);
    return this.#readHotels(pending, view, finish);
  }

  /** Reads the hotels of the batch whose command for pointers is in the memory. */
  async #readHotels(pending: PendingKeys, view: View, finish: Finish): Promise<void> {
    const requested = this.#memory.result(2);
    const { cache, local, mayRead, count } = this.#options;
    const prefix = cache.prefixOf('id');
    // labels of another history mean nothing to the window
    const isSameHistory = () => cache.prefixOf('id') === prefix;
    let pointed: Pointed | undefined;
    if (requested === 0) {
      pointed = this.#requestEntries(pending);
    } else {
      const pointers = new PointersReader(this.#memory, requested, ({ places }) => {
        if (!isSameHistory()) return;
        this.#memory.words.set(places, this.#memory.wasm.PLACES.value / 4);
        pointed = this.#requestEntries(pending);
      });
      await this.#send(this.#memory.takeCommand(), requested, pointers);
    }
    if (!pointed) return finish(this.#leaveGaps(pending));

    const { absent } = pointed;
    if (pointed.named === 0) {
      count('redis', 'absent', absent);
      return finish(this.#leaveGaps(pointed.pending));
    }
    let finished: Promise<void> | undefined;
    const done = (result: Uint8Array | PartialResponse, hits: number) => {
      if (isSameHistory()) {
        count('redis', 'absent', absent);
        count('redis', 'hit', hits);
        finished = finishNow(finish, result);
      } else finished = finishNow(finish, pending.partialResponse());
    };
    // after a stop of this process a reply is older than it seems
    const mayStore = () => mayRead() && isSameHistory();
    const stream = new EntryStream(this.#memory, pointed.pending, view, done, local, mayStore);
    const hasReply = await this.#send(pointed.command, pointed.named, stream);
    // no entry has arrived: the reader loads and counts all of them
    if (!hasReply) return finish(this.#leaveGaps(pending));
    // only on this path: after a timeout the late reply is still read into the tables
    for (const { table } of [pending, pointed.pending]) this.#memory.pool.release(table);
    this.#memory.releaseHits(pending.hits);
    return finished;
  }

  /** Leaves the keys that Redis has not resolved to the reader. A late reply is read, but no response contains it. */
  #leaveGaps(pending: PendingKeys): PartialResponse {
    const partial = pending.partialResponse();
    this.#memory.releaseHits(pending.hits);
    return partial;
  }

  #send(command: Buffer, keys: number, reader: ReplyReader): Promise<true | undefined> {
    return this.#options.redis.sendMget(command, keys, reader, () => this.#memory.pool.release(command));
  }

  /** Follows the known pointers and those in the memory. */
  #requestEntries({ namespace, count, table, hits }: PendingKeys): Pointed {
    const { wasm, bytes } = this.#memory;
    bytes.set(table, wasm.SCRATCH.value);
    const prefixLength = this.#memory.writePrefix(this.#options.cache.prefixOf('id'));
    const { local, mayRead } = this.#options;
    const named = wasm.requestEntries(
      ...([count, table.length, numberOf(namespace), prefixLength, monotonicMs()] as const),
      local.keeps && mayRead() ? local.absentTtlMs : 0,
    );
    const absent = this.#memory.result(2);
    const pending = new PendingKeys(namespace, count, this.#memory.takePending(), hits);
    return { pending, named, absent, command: this.#memory.takeCommand() };
  }
}

/** Result of following the pointers of a batch. */
interface Pointed {
  pending: PendingKeys;
  /** number of entries that `command` requests */
  named: number;
  command: Buffer;
  absent: number;
}

/** Calls `finish`, so that its errors do not count as failures of Redis. */
async function finishNow(finish: Finish, result: Uint8Array | PartialResponse): Promise<void> {
  await finish(result);
}
