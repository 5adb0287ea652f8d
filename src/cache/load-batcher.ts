import { isTimeout, Unavailable } from '../errors.ts';
import type { Found } from '../hotels/entry.ts';
import { type HotelSizes, MAX_HOTEL_BYTES, sumOf } from '../hotels/hotel-sizes.ts';
import { mayExist, type Namespace } from '../hotels/namespace.ts';
import { onIteration } from '../lib/clock.ts';
import { LookupQueue } from './lookup-queue.ts';

/** Place of a key that no hotel can have. */
const NO_KEY = -1;

/**
 * Maximum number of keys that are read with those of other requests: beyond, finding the common ones costs more than
 * reading them twice.
 */
export const MAX_JOINED = 100;
/**
 * Bytes of hotels that are looked up at once: of usual hotels until the caches have answered, of large ones until PostgreSQL has
 * too. More in one reply of Redis takes longer than its deadline on a busy machine.
 */
const MAX_READING_BYTES = 512 * 1024;
/** Number of hotels in a lookup above which a timeout is put down to their size. */
const MIN_TYPICAL = 8;
/** Bytes of lookups before a lookup of large hotels above which it is rejected; other owners count by their shares. */
const MAX_BYTES_BEFORE = 5_000 * MAX_HOTEL_BYTES;
/** Maximum wait of a lookup of large hotels. */
const MAX_LOOKUP_WAIT_MS = 500;

/**
 * Lookup that the caches have answered. A caller whose keys are all found does not wait for PostgreSQL, and does not
 * fail with it, when other callers of the same lookup miss keys.
 */
export interface LookupResult {
  /** undefined: in no cache; completed as far as possible when `loaded` settles */
  found: (Found | undefined)[];
  /** settles after the load from PostgreSQL; rejects with `Unavailable` if keys remain missing */
  loaded: Promise<void>;
}

/** Keys requested in one event-loop iteration in one namespace. */
interface JoinedLookup {
  /** '': of several */
  owner: string;
  keys: string[];
  places: Map<string, number>;
  /** the places of each request */
  requests: { owner: string; places: number[] }[];
  reading: Promise<LookupResult>;
}

type LookUp = (
  namespace: Namespace,
  keys: string[],
  owner: string,
  collection: string | null,
) => Promise<LookupResult>;

/**
 * Joins the keys requested in one event-loop iteration into one lookup for each namespace and collection. An owner of large
 * hotels has lookups of its own, and every owner while lookups or loads are queued, so that the queues can be fair to owners.
 * Lookups are queued by the bytes that are expected, except those that do not join, which begin at once: thousands of connections
 * may request a large hotel each. Those of large hotels have a queue of their own, in which they wait for PostgreSQL: the others
 * need not.
 */
export class LoadBatcher {
  readonly #read: LookUp;
  readonly #isContended: () => boolean;
  readonly #open = new Map<string, JoinedLookup>();
  readonly #sizes: HotelSizes;
  readonly #usual = new LookupQueue(MAX_READING_BYTES, MAX_HOTEL_BYTES);
  readonly #large = new LookupQueue(MAX_READING_BYTES, MAX_HOTEL_BYTES, MAX_LOOKUP_WAIT_MS);

  constructor(read: LookUp, sizes: HotelSizes, isContended: () => boolean) {
    this.#read = read;
    this.#sizes = sizes;
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
    const areLarge = this.#sizes.areLarge(owner);
    if (areLarge && this.#large.bytesBefore(owner) > MAX_BYTES_BEFORE) throw tooLate();
    const whose = areLarge || this.#usual.length > 0 || this.#isContended() ? owner : '';
    // of most requests a constant, whose hash is known
    const name =
      whose === '' && collection === null ? namespace : JSON.stringify([namespace, whose, collection]);
    const joined = this.#open.get(name) ?? this.#begin(namespace, name, whose, collection);
    const places = keys.map((key) => {
      if (!mayExist(namespace, key)) return NO_KEY;
      let place = joined.places.get(key);
      if (place === undefined) {
        place = joined.keys.push(key) - 1;
        joined.places.set(key, place);
      }
      return place;
    });
    joined.requests.push({ owner, places });
    if (this.#bytesOf(joined) >= MAX_READING_BYTES) this.#open.delete(name);
    return pick(await joined.reading, places);
  }

  #begin(namespace: Namespace, name: string, owner: string, collection: string | null): JoinedLookup {
    const { promise, resolve, reject } = Promise.withResolvers<LookupResult>();
    const joined: JoinedLookup = { owner, keys: [], places: new Map(), requests: [], reading: promise };
    this.#open.set(name, joined);
    onIteration(() => {
      if (this.#open.get(name) === joined) this.#open.delete(name);
      const { keys, requests } = joined;
      const bytes = this.#bytesOf(joined);
      const areLarge = this.#sizes.areLarge(owner);
      const lookUp = async (hold: (bytes: number) => void) => {
        const reading = this.#read(namespace, keys, owner, collection);
        reading.then(resolve, reject);
        try {
          const { found, loaded } = await reading;
          const missing = found.filter((hotel) => hotel === undefined).length;
          hold(areLarge && missing > 0 ? (bytes * missing) / keys.length : 0);
          await loaded;
          for (const { owner: key, places } of requests)
            this.#sizes.noteLookup(
              key,
              places.map((place) => found[place]),
            );
        } catch (error) {
          this.#noteFailure(error, owner, keys.length);
        }
      };
      const queue = areLarge ? this.#large : this.#usual;
      queue.append(owner, bytes, lookUp, () => reject(tooLate()));
    });
    return joined;
  }

  /** Returns true if a new lookup of this owner would wait in the queue of large hotels. */
  mustWait(owner: string): boolean {
    return !this.#large.hasRoom && this.#sizes.areLarge(owner);
  }

  #bytesOf({ owner, keys }: JoinedLookup): number {
    return keys.length * this.#sizes.of(owner);
  }

  #noteFailure(error: unknown, owner: string, keys: number): void {
    if (isTimeout(error) && keys >= MIN_TYPICAL) this.#sizes.wasTooMuch(owner);
  }

  async #loadAlone(
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
    collection: string | null,
  ): Promise<Found[]> {
    const existing = keys.filter((key) => mayExist(namespace, key));
    const places = existing.map((_, i) => i);
    const reading = this.#read(namespace, existing, owner, collection);
    const found = await reading
      .then((result) => pick(result, places))
      .catch((error) => {
        this.#noteFailure(error, owner, keys.length);
        throw error;
      });
    this.#sizes.note(owner, ...sumOf(found));
    if (existing.length === keys.length) return found;
    let next = 0;
    return keys.map((key) => (key === existing[next] ? found[next++]! : null));
  }
}

/** Returns the hotels at these places; awaits PostgreSQL only if one of them is missing. Throws `Unavailable`. */
async function pick({ found, loaded }: LookupResult, places: number[]): Promise<Found[]> {
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
