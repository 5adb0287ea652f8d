import type { View } from '../../hotels/entry.ts';
import { EMPTY_ARRAY } from '../../hotels/json-array.ts';
import { LETTER, type Namespace, numberOf } from '../../hotels/namespace.ts';
import type { ReplyReader } from '../../redis/reply-parser.ts';
import type { RedisStore } from '../../redis/store.ts';
import { HASH_SEED } from '../../wasm/load.ts';
import type { BatchLookup, Ids } from '../arena/batch-lookup.ts';
import { writeKey } from '../arena/key-bytes.ts';
import type { CountLookups } from '../hotel-loader.ts';
import type { LocalCache } from '../local-cache.ts';
import type { PartialResponse } from '../partial-response.ts';
import type { RecentChanges } from '../recent-changes.ts';
import type { RedisHotelCache } from '../redis-hotel-cache.ts';
import { EntryStream } from './entry-stream.ts';
import { type KeepEntry, RedisBatchMemory } from './memory.ts';
import { PendingKeys } from './pending-keys.ts';
import { PointersReader } from './pointers-reader.ts';

/** Result of `requestPointers` for a body that is left to the general parser. */
const NOT_READ = -1;
/** Half of the maximum time for which changes are kept: longer than any load takes. */
const ROTATE_CHANGES_MS = 30_000;

/** Callback with the response; its bytes are valid until the call returns. */
type Finish = (result: Uint8Array | PartialResponse) => void | Promise<void>;

/**
 * Serves batches, or what the local cache misses of them, directly from the replies of Redis. WebAssembly turns the keys
 * into the MGET of pointers, these into the MGET of entries, and these into the response, without an object for each
 * hotel. A miss, a stale pointer, a corrupt or outdated value stays a gap, which the reader fills.
 */
export class RedisBatchReader {
  readonly #redis: RedisStore;
  readonly #cache: RedisHotelCache;
  readonly #isFeedUp: () => boolean;
  readonly #count: CountLookups;
  readonly #local: LocalCache | undefined;
  readonly #recent: RecentChanges;
  readonly #memory = new RedisBatchMemory();
  readonly #rotation: NodeJS.Timeout;

  /** While `isFeedUp` returns false, Redis may be outdated, so every batch is declined. */
  constructor(
    redis: RedisStore,
    redisCache: RedisHotelCache,
    local: LocalCache | undefined,
    recent: RecentChanges,
    isFeedUp: () => boolean,
    count: CountLookups,
  ) {
    this.#local = local;
    this.#recent = recent;
    this.#redis = redis;
    this.#cache = redisCache;
    this.#isFeedUp = isFeedUp;
    this.#count = count;
    const { wasm } = this.#memory;
    wasm.init(...HASH_SEED);
    this.#rotation = setInterval(() => wasm.rotateChanges(), ROTATE_CHANGES_MS);
    this.#rotation.unref();
  }

  close(): void {
    clearInterval(this.#rotation);
  }

  /** Drops all changes, because their versions are no longer valid. */
  forgetChanges(): void {
    // the current and the previous table
    for (let table = 0; table < 2; table++) this.#memory.wasm.rotateChanges();
  }

  /** Notes a change of the hotel with this key, `version` 0 if unknown. Older values in Redis are ignored for a while. */
  changed(namespace: Namespace, key: string, version: number): void {
    const { wasm, bytes } = this.#memory;
    const length = writeKey(bytes, key, wasm.INPUT.value);
    if (length > 0) wasm.note(numberOf(namespace), length, version);
  }

  /**
   * Serves the body of a batch; with `visible`, hotels with other ids and absent ones stay gaps. Returns undefined if the body
   * needs the general parser or Redis is not usable. Rejects with the error of `finish`.
   */
  read(
    namespace: 'channel' | 'registry',
    body: Uint8Array,
    view: View,
    finish: Finish,
    visible?: Ids,
  ): Promise<void> | undefined {
    const { wasm, bytes } = this.#memory;
    if (!this.#isFeedUp() || body.length > wasm.INPUT_BYTES.value) return undefined;
    bytes.set(body, wasm.INPUT.value);
    const prefixLength = this.#memory.writePrefix(this.#cache.prefixOf(namespace));
    const isFiltered = visible ? 1 : 0;
    const count = wasm.requestPointers(body.length, numberOf(namespace), prefixLength, isFiltered);
    if (count === NOT_READ || count === 0) return undefined;
    const pending = new PendingKeys(namespace, count, this.#memory.takePending());
    return this.#readHotels(pending, view, finish, visible);
  }

  /**
   * Completes a batch of which the local cache held a part. The hotels that Redis returns go into the response and into
   * the local cache. Returns undefined if Redis is not usable, or if a key is not plain.
   */
  complete(
    namespace: 'channel' | 'registry',
    lookup: BatchLookup,
    view: View,
    finish: Finish,
    visible?: Ids,
  ): Promise<void> | undefined {
    const { wasm, bytes, words } = this.#memory;
    const { output } = lookup;
    if (!this.#isFeedUp()) return undefined;
    const hits = lookup.hits === 0 ? EMPTY_ARRAY : this.#memory.takeHits(output);
    if (!hits) return undefined;
    lookup.copyMisses(bytes, words, wasm.INPUT.value, wasm.ELEMENTS.value);
    const prefixLength = this.#memory.writePrefix(this.#cache.prefixOf(namespace));
    const isFiltered = visible ? 1 : 0;
    const count = wasm.requestPointersOfElements(
      lookup.misses,
      numberOf(namespace),
      prefixLength,
      isFiltered,
    );
    if (count === NOT_READ) {
      this.#memory.releaseHits(hits);
      return undefined;
    }
    const pending = new PendingKeys(namespace, count, this.#memory.takePending(), hits);
    return this.#readHotels(pending, view, finish, visible);
  }

  /** Reads the hotels of the batch whose command for pointers is in the memory. */
  async #readHotels(
    pending: PendingKeys,
    view: View,
    finish: Finish,
    visible: Ids | undefined,
  ): Promise<void> {
    const began = this.#recent.position;
    const requested = this.#memory.result(2);
    let pointed: Pointed | undefined;
    if (requested === 0) {
      pointed = this.#requestEntries(pending, visible);
    } else {
      const pointers = new PointersReader(this.#memory, requested, ({ places }) => {
        this.#memory.words.set(places, this.#memory.wasm.PLACES.value / 4);
        pointed = this.#requestEntries(pending, visible);
      });
      await this.#send(this.#memory.takeCommand(), requested, pointers);
    }
    if (!pointed) return finish(this.#leaveGaps(pending));

    const { absent } = pointed;
    if (absent > 0) this.#storeAbsences(pointed.pending, began);
    if (pointed.named === 0) {
      this.#count('redis', 'absent', absent);
      return finish(this.#leaveGaps(pointed.pending));
    }
    let finished: Promise<void> | undefined;
    const done = (result: Uint8Array | PartialResponse, hits: number) => {
      this.#count('redis', 'absent', absent);
      this.#count('redis', 'hit', hits);
      finished = finishNow(finish, result);
    };
    const keep = this.#local && this.#keeper(this.#local, began);
    const stream = new EntryStream(this.#memory, pointed.pending, view, done, keep, this.#local?.storedOneOf);
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

  /** Stores entries of a load that began at this position of the recent changes. */
  #keeper(local: LocalCache, began: number): KeepEntry {
    const { bytes } = this.#memory;
    return (address, length) => {
      // each was compared with the changes of its own hotel; this checks for changes of all hotels
      if (this.#mayStore('', began)) local.storeBytes(bytes.subarray(address, address + length), true);
    };
  }

  #storeAbsences(pending: PendingKeys, began: number): void {
    const { namespace } = pending;
    for (const key of this.#local ? pending.absences() : [])
      if (this.#mayStore(LETTER[namespace] + key, began)) this.#local!.storeAbsent(namespace, key, true);
  }

  /** After a stop of this process the feed is not up: a reply is older than it seems. */
  #mayStore(name: string, began: number): boolean {
    return this.#isFeedUp() && this.#recent.mayStore(name, began);
  }

  #send(command: Buffer, keys: number, reader: ReplyReader): Promise<true | undefined> {
    return this.#redis.sendMget(command, keys, reader, () => this.#memory.pool.release(command));
  }

  /** Follows the known pointers and those in the memory. */
  #requestEntries({ namespace, count, table, hits }: PendingKeys, visible: Ids | undefined): Pointed {
    const { wasm, bytes } = this.#memory;
    bytes.set(table, wasm.SCRATCH.value);
    const prefixLength = this.#memory.writePrefix(this.#cache.prefixOf('id'));
    this.#memory.visible = visible;
    const named = wasm.requestEntries(
      count,
      table.length,
      numberOf(namespace),
      prefixLength,
      visible ? 1 : 0,
    );
    this.#memory.visible = undefined;
    return {
      pending: new PendingKeys(namespace, count, this.#memory.takePending(), hits),
      named,
      absent: this.#memory.result(2),
      command: this.#memory.takeCommand(),
    };
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
