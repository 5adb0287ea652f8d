import type { Found, View } from '../../hotels/entry.ts';
import { EMPTY_ARRAY } from '../../hotels/json-array.ts';
import { type Namespace, numberOf } from '../../hotels/namespace.ts';
import { monotonicMs } from '../../lib/clock.ts';
import { MAX_ABSENCE_MS } from '../../log/bounds.ts';
import type { RedisStore } from '../../redis/store.ts';
import { OK } from '../../wasm/constants.ts';
import type { BatchLookup } from '../arena/batch-lookup.ts';
import type { CountLookups } from '../hotel-loader.ts';
import type { LocalCache } from '../local-cache.ts';
import type { CacheMemory } from '../memory.ts';
import type { PartialResponse } from '../partial-response.ts';
import type { RedisHotelCache } from '../redis-hotel-cache.ts';
import { PendingKeys } from './pending-keys.ts';
import { type BatchResult, SharedReply, takeEntries, type Wanted } from './replies.ts';

/** Number of keys whose entries are read at once: they fit the memory for a response, 8 MiB. */
const KEYS_AT_ONCE = 100;
const COMMA = 0x2c;

/** Callback with the response and the number of hotels in it. The bytes are valid until the call returns. */
type Finish = (result: Uint8Array | PartialResponse, hotels: number) => void | Promise<void>;

interface RedisBatchOptions {
  redis: RedisStore;
  cache: RedisHotelCache;
  /** its lookups are completed, and it is filled with what Redis returns */
  local: LocalCache;
  /** that of the local cache; its window must be current while `isCurrent` returns true */
  memory: CacheMemory;
  /** returns false while what Redis holds may be outdated: `complete` then declines, and nothing that is read is stored */
  isCurrent: () => boolean;
  count: CountLookups;
}

/** Batch between its steps. */
interface Batch {
  pending: PendingKeys;
  wanted: Wanted;
  /** returns true when its client has disconnected */
  isOver: () => boolean;
  /** Called once, immediately when the last reply has arrived, or with nothing found when none does. */
  done: (read: BatchResult) => void | Promise<void>;
}

/**
 * Reads hotels from the replies of Redis. WebAssembly turns the keys that a lookup missed into the MGET of pointers, these into
 * the MGET of entries, and these into the response, without an object for each hotel. A miss, an outdated pointer, a
 * corrupt or outdated value stays a gap, which the caller fills.
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
   * Completes the last lookup in the local cache with the hotels that Redis returns. Returns undefined if Redis is not usable, or
   * if the response is too large. Rejects with the error of `finish`.
   */
  complete(
    namespace: Namespace,
    lookup: BatchLookup,
    view: View,
    finish: Finish,
    isOver = () => false,
  ): Promise<void> | undefined {
    if (lookup.status !== OK || !this.#options.isCurrent()) return undefined;
    const hits = lookup.hits === 0 ? EMPTY_ARRAY : this.#copyHits(lookup.output);
    const known = lookup.hits;
    const pending = this.#requestPointers(namespace, lookup.misses, hits);
    const done = ({ response, pending: left, hits: found, absent }: BatchResult) => {
      this.#options.count('redis', 'absent', absent);
      this.#options.count('redis', 'hit', found);
      return finish(response ?? left.partialResponse(), known + found);
    };
    return this.#readHotels({ pending, wanted: view, done, isOver });
  }

  /** Returns the hotels in Redis, of any certification, null for absent and undefined for unknown keys. */
  async read(namespace: Namespace, keys: string[]): Promise<(Found | undefined)[]> {
    const parts: Promise<(Found | undefined)[]>[] = [];
    for (let start = 0; start < keys.length; start += KEYS_AT_ONCE)
      parts.push(this.#readPart(namespace, keys.slice(start, start + KEYS_AT_ONCE)));
    return (await Promise.all(parts)).flat();
  }

  async #readPart(namespace: Namespace, part: string[]): Promise<(Found | undefined)[]> {
    const { cache, count } = this.#options;
    const found: (Found | undefined)[] = [];
    const misses = this.#options.local.arena.missAll(namespace, part);
    const pending = this.#requestPointers(namespace, misses, EMPTY_ARRAY);
    const done = ({ pending: left, hits, absent, invalid }: BatchResult) => {
      count('redis', 'hit', hits);
      count('redis', 'absent', absent);
      count('redis', 'miss', part.length - hits - absent);
      for (let i = 0; i < invalid; i++) cache.onInvalidValue();
      const entries = left.entries();
      for (const key of part) found.push(entries.get(key));
    };
    await this.#readHotels({ pending, wanted: 'entries', done, isOver: () => false });
    return found;
  }

  /** Copies the array of the local hits, with a comma in place of its last bracket. */
  #copyHits(output: Uint8Array): Buffer {
    const hits = this.#memory.pool.copy(output);
    hits[hits.length - 1] = COMMA;
    return hits;
  }

  #requestPointers(namespace: Namespace, misses: number, hits: Buffer): PendingKeys {
    const { wasm } = this.#memory;
    const prefixLength = this.#memory.writePrefix(this.#options.cache.prefixOf(namespace));
    const count = wasm.requestPointers(misses, numberOf(namespace), prefixLength);
    return new PendingKeys(namespace, count, this.#memory.takePending(), hits);
  }

  /** Reads the hotels of the batch whose command for pointers is in the memory. */
  async #readHotels(batch: Batch): Promise<void> {
    const { pending, wanted, done } = batch;
    const requested = this.#memory.result(2);
    const { cache, local, isCurrent } = this.#options;
    const prefix = cache.prefixOf('id');
    // labels of another history mean nothing to the window
    const isSameHistory = () => cache.prefixOf('id') === prefix;
    let pointed: Pointed | undefined;
    if (requested === 0) {
      pointed = this.#requestEntries(batch);
    } else {
      const pointers = new SharedReply(this.#memory, requested, () => {
        if (isSameHistory()) pointed = this.#requestEntries(batch);
      });
      await this.#send(this.#memory.takeCommand(), requested, pointers);
    }
    if (!pointed || batch.isOver()) return this.#leave(pending, done);
    const { absent, invalid } = pointed;
    if (pointed.named === 0) return this.#leave(pointed.pending, done, absent, invalid);
    let finished: Promise<void> | undefined;
    const { pending: named, command } = pointed;
    const take = () => {
      let read = nothing(pending);
      if (isSameHistory()) {
        // after a stop of this process a reply is older than it seems
        read = takeEntries(this.#memory, named, wanted, local, isCurrent());
        read.absent += absent;
        read.invalid += invalid;
      }
      // its errors are no failures of Redis
      finished = (async () => done(read))();
    };
    const entries = new SharedReply(this.#memory, pointed.named, take);
    await this.#send(command, pointed.named, entries);
    // no entry has arrived: the caller reads and counts all of them
    if (!finished) return this.#leave(pending, done);
    this.#release(pending);
    this.#memory.pool.release(named.table);
    return finished;
  }

  /** Ends a batch without entries. A late reply is read, but no response contains it. */
  async #leave(pending: PendingKeys, done: Batch['done'], absent = 0, invalid = 0): Promise<void> {
    const finished = done({ ...nothing(pending), absent, invalid });
    this.#release(pending);
    return finished;
  }

  #release({ table, known }: PendingKeys): void {
    for (const buffer of [table, known]) this.#memory.pool.release(buffer);
  }

  #send(command: Buffer, keys: number, reader: SharedReply): Promise<true | undefined> {
    return this.#options.redis.sendMget(command, keys, reader, () => this.#memory.pool.release(command));
  }

  /** Follows the known pointers and those in the memory. */
  #requestEntries({ pending: { namespace, count, table, known } }: Batch): Pointed {
    const { wasm, bytes } = this.#memory;
    bytes.set(table, wasm.SCRATCH.value);
    const prefixLength = this.#memory.writePrefix(this.#options.cache.prefixOf('id'));
    const { local, isCurrent } = this.#options;
    const named = wasm.requestEntries(
      ...([count, table.length, numberOf(namespace), prefixLength, monotonicMs()] as const),
      local.isEnabled && isCurrent() ? MAX_ABSENCE_MS : 0,
    );
    const pending = new PendingKeys(namespace, count, this.#memory.takePending(), known);
    const [absent, invalid] = [this.#memory.result(2), this.#memory.result(3)];
    return { pending, named, absent, invalid, command: this.#memory.takeCommand() };
  }
}

/** Result of following the pointers of a batch. */
interface Pointed {
  pending: PendingKeys;
  /** number of entries that `command` requests */
  named: number;
  command: Buffer;
  absent: number;
  invalid: number;
}

/** Returns the result of a batch that Redis has not resolved beyond this table. */
function nothing(pending: PendingKeys): BatchResult {
  return { response: undefined, pending, hits: 0, absent: 0, invalid: 0 };
}
