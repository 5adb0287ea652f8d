import { type Namespace, numberOf } from '../hotels/namespace.ts';
import { WINDOW_BUCKETS as BUCKETS } from '../wasm/constants.ts';
import { hash, hashKey } from '../wasm/hashes.ts';
import type { LogEvent } from './follower.ts';
import type { LogRow } from './log-connection.ts';

const FLOOR = BUCKETS;
/** Number of the namespace of API keys, behind those of hotels. */
const KEY_NAMESPACE = 3;

/** Kinds of cached values that changes outdate by key: hotels by each of their keys, and API keys by their hash. */
export type WindowNamespace = Namespace | 'key';

/**
 * Newest known change of each key, by its position in the log. It decides whether a cached value may be used: only if no
 * newer change is known.
 *
 * The argument. A value has a label, the position at which it was read, and contains every change up to it. It is outdated
 * only by a change after its label, so a value is used if its key has no change with a position above its label. `covers`
 * answers this for all positions above the floor: every applied change above the floor has raised the bucket of its keys,
 * and a bucket never falls. Below the floor changes are not known, so no label below it is covered. Keys share
 * buckets by their hash: the bucket is at least the newest change of each of them, so a collision costs a miss and never
 * allows an outdated value. It needs no lifetime and no capacity, and what a cache loses, delays or revives meets the same
 * comparison.
 *
 * There are 2^20 buckets of 8 bytes: with a million hotels in Redis, a change makes about three other values miss, one for
 * each of its ids. In a worker they are in the memory of the caches, whose program compares 1000 labels at a time
 * (wasm/assembly/redis-batch/entries.ts).
 */
export class Window {
  /** the buckets, then the floor */
  readonly #cells: Float64Array;

  /** Takes `CacheMemory.window` in a worker; the primary process has cells of its own. It covers nothing until `lowerFloor`. */
  constructor(cells: Float64Array = new Float64Array(BUCKETS + 1)) {
    if (cells.length !== BUCKETS + 1) throw new RangeError(`a window of ${cells.length} cells`);
    this.#cells = cells;
    cells[FLOOR] = Infinity;
  }

  /** No label below this position is covered. */
  get floor(): number {
    return this.#cells[FLOOR]!;
  }

  /** Applies what happens to the log. */
  follow(event: LogEvent): void {
    if (event.type === 'history') this.beginHistory(event.position);
    if (event.type === 'news' || event.type === 'learned') for (const row of event.rows) this.apply(row);
    if (event.type === 'learned') this.lowerFloor(event.floor);
  }

  /** Applies a row of the log: no label below its position is covered for the keys that it names. */
  apply({ kind, position, ids, channelIds, registryIds }: LogRow): void {
    if (kind.startsWith('all_')) this.raiseFloor(position);
    else if (kind === 'keys') for (const id of ids) this.raise('key', id, position);
    else if (kind === 'hotels')
      for (const [i, id] of ids.entries()) {
        this.raise('id', id, position);
        const [channelId, registryId] = [channelIds[i], registryIds[i]];
        if (channelId) this.raise('channel', channelId, position);
        if (registryId) this.raise('registry', registryId, position);
      }
  }

  /** Applies a change of one key at a position. */
  raise(namespace: WindowNamespace, key: string, position: number): void {
    const bucket = bucketOf(namespace, key);
    if (bucket >= 0 && this.#cells[bucket]! < position) this.#cells[bucket] = position;
  }

  /** Applies a change of anything at a position. */
  raiseFloor(position: number): void {
    this.#cells[FLOOR] = Math.max(this.floor, position);
  }

  /** States that all changes after a position have been applied, of which none was of anything. */
  lowerFloor(position: number): void {
    this.#cells[FLOOR] = Math.min(this.floor, position);
  }

  /** Returns true if no change of the key after `label` is known, and none can be missing. */
  covers(namespace: WindowNamespace, key: string, label: number): boolean {
    const bucket = bucketOf(namespace, key);
    return bucket >= 0 && label >= this.floor && label >= this.#cells[bucket]!;
  }

  /** Forgets all changes: another history is followed from `position` on. Its earlier changes may be learned. */
  beginHistory(position: number): void {
    this.#cells.fill(0);
    this.#cells[FLOOR] = position;
  }

  /** Returns what a new worker takes over. */
  copy(): Float64Array {
    return this.#cells.slice();
  }

  /** Takes over what another process of this service has applied, which has the same seed of the hash. */
  load(copy: Float64Array): void {
    this.#cells.set(copy);
  }
}

/** Returns the bucket of a key; -1 for what is no key, which nothing in a cache can have. */
function bucketOf(namespace: WindowNamespace, key: string): number {
  const number = namespace === 'key' ? KEY_NAMESPACE : numberOf(namespace);
  return hashKey(number, key) ? hash[0]! & (BUCKETS - 1) : -1;
}
