import { isTimeout, Unavailable } from '../errors.ts';
import type { Found } from '../hotels/entry.ts';
import { HotelsAtOnce } from '../hotels/hotels-at-once.ts';
import { mayExist, type Namespace } from '../hotels/namespace.ts';
import { monotonicMs, onIteration } from '../lib/clock.ts';
import { WaitQueue } from '../lib/wait-queue.ts';

/** Place of a key that no hotel can have. */
const NO_KEY = -1;

/**
 * Maximum number of keys that are read with those of other requests: beyond, finding the common ones costs more than
 * reading them twice.
 */
export const MAX_JOINED = 100;
/** Bounds of the number of keys of joined requests that are looked up at once, and of the bytes of their hotels. */
const MIN_READING = 32;
const MAX_READING = 256;
const MAX_READING_BYTES = 2 * 1024 * 1024;
/** Bounds of the wait for a lookup of large hotels: keys that a new one may wait for, those of other owners by their shares, and time. */
const MAX_KEYS_BEFORE = 5_000;
const MAX_LOOKUP_WAIT_MS = 500;

/**
 * Lookup that the caches have answered. A caller whose keys are all found does not wait for PostgreSQL, and does not
 * fail with it, when other callers of the same batch miss keys.
 */
export interface BatchRead {
  /** undefined: in no cache; completed as far as possible when `loaded` settles */
  found: (Found | undefined)[];
  /** settles after the load from PostgreSQL; rejects with `Unavailable` if keys remain missing */
  loaded: Promise<void>;
}

/** Keys requested in one event-loop iteration in one namespace. */
interface LoadBatch {
  keys: string[];
  places: Map<string, number>;
  reading: Promise<BatchRead>;
  /** begins to read */
  read: () => Promise<BatchRead>;
  reject: (error: Unavailable) => void;
}

type Read = (
  namespace: Namespace,
  keys: string[],
  owner: string,
  collection: string | null,
) => Promise<BatchRead>;

/**
 * Joins the keys requested in one event-loop iteration into one lookup for each namespace and collection. While lookups or
 * loads are queued it makes one for each owner too, so that the queues can be fair to owners. Lookups are queued when the
 * hotels of those before are large: thousands of connections may ask for one each.
 */
export class LoadBatcher {
  readonly #read: Read;
  readonly #isContended: () => boolean;
  readonly #open = new Map<string, LoadBatch>();
  /** number of keys that may be looked up at once, by the size of the hotels before, whose owner does not matter */
  readonly #atOnce = new HotelsAtOnce(MAX_READING, MAX_READING_BYTES, MIN_READING);
  readonly #waiting = new WaitQueue<LoadBatch>(1, MIN_READING);
  /** number of keys whose lookup the caches have not answered */
  #reading = 0;

  constructor(read: Read, isContended: () => boolean) {
    this.#read = read;
    this.#isContended = isContended;
  }

  /**
   * Returns the hotels of these keys in a collection (null: all hotels), in the order of the keys. `joins`: they may be looked
   * up with those of others, and then hold the memory of all. Throws `Unavailable`.
   */
  async load(
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
    collection: string | null,
    joins = keys.length <= MAX_JOINED,
  ): Promise<Found[]> {
    if (!joins) return this.#loadAlone(namespace, keys, owner, collection);
    if (this.#areLarge && this.#waiting.sizeBefore(owner) > MAX_KEYS_BEFORE) throw tooLate();
    const whose = this.#waiting.length > 0 || this.#isContended() ? owner : '';
    // of most requests a constant, whose hash is known
    const name =
      whose === '' && collection === null ? namespace : JSON.stringify([namespace, whose, collection]);
    const batch = this.#open.get(name) ?? this.#begin(namespace, name, whose, collection);
    const places = keys.map((key) => {
      if (!mayExist(namespace, key)) return NO_KEY;
      let place = batch.places.get(key);
      if (place === undefined) {
        place = batch.keys.push(key) - 1;
        batch.places.set(key, place);
      }
      return place;
    });
    if (batch.keys.length >= this.#mostKeys) this.#open.delete(name);
    return pick(await batch.reading, places);
  }

  #begin(namespace: Namespace, name: string, owner: string, collection: string | null): LoadBatch {
    const { promise, resolve, reject } = Promise.withResolvers<BatchRead>();
    const read = () => {
      const reading = this.#read(namespace, batch.keys, owner, collection);
      reading.then(resolve, reject);
      return reading;
    };
    const batch: LoadBatch = { keys: [], places: new Map(), reading: promise, read, reject };
    this.#open.set(name, batch);
    onIteration(() => {
      if (this.#open.get(name) === batch) this.#open.delete(name);
      this.#waiting.append(owner, batch, batch.keys.length, monotonicMs());
      this.#next();
    });
    return batch;
  }

  /** Begins the lookups that there is room for. */
  #next(): void {
    while (this.#waiting.length > 0 && this.#reading < this.#mostKeys) {
      const { item, sinceMs } = this.#waiting.shift()!;
      const { read, keys } = item;
      if (this.#areLarge && monotonicMs() - sinceMs > MAX_LOOKUP_WAIT_MS) {
        item.reject(tooLate());
        continue;
      }
      this.#reading += keys.length;
      const answered = () => {
        this.#reading -= keys.length;
        this.#next();
      };
      const reading = read();
      reading.then(answered, answered);
      reading
        .then(async ({ found, loaded }) => {
          await loaded;
          this.#noteSize(found);
        })
        .catch((error) => {
          if (isTimeout(error) && keys.length >= MIN_READING) this.#atOnce.tooMany('');
        });
    }
  }

  /** false: what waits does so for a slow Redis, and is not rejected */
  get #areLarge(): boolean {
    return this.#mostKeys < MAX_READING;
  }

  get #mostKeys(): number {
    return this.#atOnce.most('');
  }

  #noteSize(found: BatchRead['found']): void {
    const hotels = found.flatMap((hotel) => hotel ?? []);
    const bytes = hotels.reduce((sum, hotel) => sum + hotel.bytes.length, 0);
    this.#atOnce.read('', hotels.length, bytes);
  }

  async #loadAlone(
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
    collection: string | null,
  ): Promise<Found[]> {
    const existing = keys.filter((key) => mayExist(namespace, key));
    const places = existing.map((_, i) => i);
    const found = await pick(await this.#read(namespace, existing, owner, collection), places);
    if (existing.length === keys.length) return found;
    let next = 0;
    return keys.map((key) => (key === existing[next] ? found[next++]! : null));
  }
}

/** Returns the hotels at these places; awaits PostgreSQL only if one of them is missing. Throws `Unavailable`. */
async function pick({ found, loaded }: BatchRead, places: number[]): Promise<Found[]> {
  const isMissing = (place: number) => place !== NO_KEY && found[place] === undefined;
  if (places.some(isMissing)) {
    try {
      await loaded;
    } catch (error) {
      if (places.some(isMissing)) throw error;
    }
  }
  return places.map((place) => (place === NO_KEY ? null : found[place]!));
}

function tooLate(): Unavailable {
  return new Unavailable('more large hotels wait than can be read in time', { rejection: 'overload' });
}
