import type { Found, View } from '../../hotels/entry.ts';
import { EMPTY_ARRAY, type PartialResponse } from '../../hotels/json-array.ts';
import { type Namespace, numberOf } from '../../hotels/namespace.ts';
import type { RedisStore } from '../../redis/store.ts';
import * as fields from '../../wasm/fields.ts';
import type { BatchLookup } from '../arena/batch-lookup.ts';
import type { CountLookups } from '../hotel-loader.ts';
import type { LocalCache } from '../local-cache.ts';
import type { CacheMemory } from '../memory.ts';
import type { RedisHotelCache } from '../redis-hotel-cache.ts';
import { type BatchResult, nothing, PendingKeys, SharedReply, takeEntries, type Wanted } from './replies.ts';

/** Number of keys whose entries are read at once: they fit the memory for a response, 8 MiB. */
const KEYS_AT_ONCE = 100;

/** Callback with the response and the number of hotels in it. The bytes are valid until it returns. */
type Finish = (result: Uint8Array | PartialResponse, hotels: number) => void | Promise<void>;

interface RedisBatchOptions {
  redis: RedisStore;
  cache: RedisHotelCache;
  /** its lookups are completed, and it is filled with what Redis returns */
  local: LocalCache;
  /** that of the local cache; its window must be current while `isCurrent` returns true */
  memory: CacheMemory;
  /** returns false while what Redis holds may be outdated: nothing that is read is stored then */
  isCurrent: () => boolean;
  count: CountLookups;
}

/**
 * Reads hotels from the replies of Redis. WebAssembly turns the keys that a lookup missed into the MGET of pointers, these into
 * the MGET of entries, and these into the response, without an object for each hotel. A miss, an outdated pointer, a
 * corrupt or outdated value stays a gap, which the caller fills.
 *
 * Entries are compared with the window (log/window.ts) and stored in the local cache in one synchronous step,
 * so no change is applied in between; a later change drops them there.
 */
export class RedisBatchReader {
  readonly #options: RedisBatchOptions;
  readonly #memory: CacheMemory;

  constructor(options: RedisBatchOptions) {
    this.#options = options;
    this.#memory = options.memory;
  }

  /** False while what Redis holds may be outdated. */
  get isUsable(): boolean {
    return this.#options.isCurrent();
  }

  /**
   * Completes the last lookup in the local cache, whose status is OK, with the hotels that Redis returns. Rejects with the error of
   * `finish`.
   */
  complete(
    namespace: Namespace,
    lookup: BatchLookup,
    view: View,
    finish: Finish,
    isOver?: () => boolean,
  ): Promise<void> {
    const { hits: localHits, misses } = lookup;
    const localArray = this.#memory.pool.copy(lookup.output);
    const done = ({ response, pending, hits, isFull }: BatchResult) =>
      finish(response ?? pending.partialResponse(isFull), localHits + hits);
    return this.#readHotels(this.#requestPointers(namespace, misses, localArray), view, done, isOver);
  }

  /** Adds to `found` the hotels in Redis. */
  async read(namespace: Namespace, keys: readonly string[], found: Map<string, Found>): Promise<void> {
    const parts: Promise<void>[] = [];
    for (let start = 0; start < keys.length; start += KEYS_AT_ONCE)
      parts.push(this.#readPart(namespace, keys.slice(start, start + KEYS_AT_ONCE), found));
    await Promise.all(parts);
  }

  #readPart(namespace: Namespace, part: string[], found: Map<string, Found>): Promise<void> {
    const misses = this.#options.local.arena.missAll(namespace, part);
    const pending = this.#requestPointers(namespace, misses, EMPTY_ARRAY);
    return this.#readHotels(pending, 'entries', (result) => result.pending.addEntriesTo(found));
  }

  #requestPointers(namespace: Namespace, misses: number, hits: Buffer): PendingKeys {
    const { wasm } = this.#memory;
    const prefixLength = this.#memory.writePrefix(this.#options.cache.prefixOf(namespace));
    const count = wasm.requestPointers(misses, numberOf(namespace), prefixLength);
    return new PendingKeys(namespace, count, this.#memory.takePending(), hits);
  }

  /**
   * Reads the hotels of the batch whose command for pointers is in the memory. `done` is called once, immediately when the last
   * reply has arrived, or with nothing found when none does. `isOver` returns true when the client has disconnected.
   */
  async #readHotels(
    pending: PendingKeys,
    wanted: Wanted,
    done: (result: BatchResult) => void | Promise<void>,
    isOver = () => false,
  ): Promise<void> {
    const requested = this.#memory.result(fields.REQUESTED_POINTERS);
    const { cache, local, isCurrent } = this.#options;
    const prefix = cache.prefixOf('id');
    // labels of another history mean nothing to the window
    const isSameHistory = () => cache.prefixOf('id') === prefix;
    let next: { pointed: PendingKeys; named: number; command: Buffer } | undefined;
    if (requested === 0) next = this.#requestEntries(pending);
    else
      await this.#send(this.#memory.takeCommand(), requested, () => {
        if (isSameHistory()) next = this.#requestEntries(pending);
      });
    let finished: Promise<void> | undefined;
    const finish = (result: BatchResult) => {
      this.#count(result);
      // its errors are no failures of Redis
      finished = (async () => done(result))();
    };
    if (next && next.named > 0 && !isOver()) {
      const { named, command, pointed } = next;
      await this.#send(command, named, () => {
        // after a stop of this process a reply is older than it seems
        if (isSameHistory()) finish(takeEntries(this.#memory, pointed, wanted, local, isCurrent()));
      });
      this.#memory.pool.release(pointed.table);
    }
    if (!finished) finish(nothing(pending));
    for (const buffer of [pending.table, pending.known]) this.#memory.pool.release(buffer);
    return finished;
  }

  #count({ pending, hits, invalid, isFull }: BatchResult): void {
    const { count } = this.#options;
    count('redis', 'hit', hits);
    // otherwise they are read again, and counted then
    if (!isFull) count('redis', 'miss', pending.count - hits);
    this.#countInvalid(invalid);
  }

  #countInvalid(values: number): void {
    for (let i = 0; i < values; i++) this.#options.cache.onInvalidValue();
  }

  /** Sends a command for the values of `keys` keys. `done` is called when they are in the memory. */
  async #send(command: Buffer, keys: number, done: () => void): Promise<void> {
    const { redis } = this.#options;
    const reader = new SharedReply(this.#memory, keys, done);
    await redis.sendMget(command, keys, reader, () => this.#memory.pool.release(command));
  }

  /** Follows the pointers in the memory. Returns the command for the entries of all ids, and their number. */
  #requestEntries({ namespace, count, table, known }: PendingKeys) {
    const { wasm, bytes } = this.#memory;
    bytes.set(table, wasm.SCRATCH.value);
    const prefixLength = this.#memory.writePrefix(this.#options.cache.prefixOf('id'));
    const named = wasm.requestEntries(count, table.length, numberOf(namespace), prefixLength);
    this.#countInvalid(this.#memory.result(fields.INVALID_POINTERS));
    const pointed = new PendingKeys(namespace, count, this.#memory.takePending(), known);
    return { pointed, named, command: this.#memory.takeCommand() };
  }
}
