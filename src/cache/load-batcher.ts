import { isTimeout, Unavailable } from '../errors.ts';
import type { Found } from '../hotels/entry.ts';
import { mayExist, type Namespace } from '../hotels/namespace.ts';
import { onIteration } from '../lib/clock.ts';
import { RecentMaximum } from '../lib/recent-maximum.ts';
import { RecentMean } from '../lib/recent-mean.ts';
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
/** Bytes of a hotel by which lookups are counted, until larger ones of the same owner are known. */
const USUAL_BYTES = 2 * 1024;
/** Mean size above which the hotels of an owner are large. */
const LARGE_BYTES = 8 * 1024;
/** Maximum size of a hotel. */
const MAX_HOTEL_BYTES = 64 * 1024;
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
 * Lookups are queued by the bytes that are expected: thousands of connections may ask for a large hotel each. Those of large
 * hotels have a queue of their own, in which they wait for PostgreSQL: the others need not.
 */
export class LoadBatcher {
  readonly #read: LookUp;
  readonly #isContended: () => boolean;
  readonly #open = new Map<string, JoinedLookup>();
  /** measured bytes of a hotel */
  readonly #measured = new RecentMean(USUAL_BYTES);
  /** bytes of a hotel by which timeouts are explained: such reads measured nothing */
  readonly #supposed = new RecentMaximum(USUAL_BYTES, MAX_HOTEL_BYTES);
  readonly #usual = new LookupQueue(MAX_READING_BYTES, MAX_HOTEL_BYTES);
  readonly #large = new LookupQueue(MAX_READING_BYTES, MAX_HOTEL_BYTES, MAX_LOOKUP_WAIT_MS);

  constructor(read: LookUp, isContended: () => boolean) {
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
    const isLarge = this.#isLarge(owner);
    if (isLarge && this.#large.bytesBefore(owner) > MAX_BYTES_BEFORE) throw tooLate();
    const whose = isLarge || this.#usual.length > 0 || this.#isContended() ? owner : '';
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
      const isKnownLarge = this.#isKnownLarge(owner);
      const lookUp = async (hold: (bytes: number) => void) => {
        const reading = this.#read(namespace, keys, owner, collection);
        reading.then(resolve, reject);
        try {
          const { found, loaded } = await reading;
          const missing = found.filter((hotel) => hotel === undefined).length;
          hold(isKnownLarge && missing > 0 ? (bytes * missing) / keys.length : 0);
          await loaded;
          this.#noteSizes(found, requests);
        } catch (error) {
          if (isTimeout(error) && keys.length >= MIN_TYPICAL)
            this.#supposed.note(owner, 4 * this.#expectedBytes(owner));
        }
      };
      const queue = isKnownLarge ? this.#large : this.#usual;
      queue.append(owner, bytes, lookUp, () => reject(tooLate()));
    });
    return joined;
  }

  /** Returns true if a new lookup of this owner would wait in the queue of large hotels. */
  mustWait(owner: string): boolean {
    return !this.#large.hasRoom && this.#isKnownLarge(owner);
  }

  #isKnownLarge(owner: string): boolean {
    return owner !== '' && this.#measured.get(owner) > LARGE_BYTES;
  }

  #isLarge(owner: string): boolean {
    return owner !== '' && this.#expectedBytes(owner) > LARGE_BYTES;
  }

  #bytesOf({ owner, keys }: JoinedLookup): number {
    return keys.length * this.#expectedBytes(owner);
  }

  #expectedBytes(owner: string): number {
    return Math.max(this.#measured.get(owner), this.#supposed.get(owner));
  }

  #noteSizes(found: LookupResult['found'], requests: JoinedLookup['requests']): void {
    const sums = new Map<string, { hotels: number; bytes: number }>();
    for (const { owner, places } of requests) {
      const sum = sums.get(owner) ?? { hotels: 0, bytes: 0 };
      sums.set(owner, sum);
      for (const place of places) {
        const hotel = place === NO_KEY ? undefined : found[place];
        if (!hotel) continue;
        sum.hotels++;
        sum.bytes += hotel.bytes.length;
      }
    }
    for (const [owner, { hotels, bytes }] of sums) if (hotels > 0) this.#measured.note(owner, hotels, bytes);
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
