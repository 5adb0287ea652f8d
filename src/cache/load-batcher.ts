import type { Found } from '../hotels/entry.ts';
import { mayExist, type Namespace } from '../hotels/namespace.ts';
import { onIteration } from '../lib/clock.ts';

/** Place of a key that no hotel can have. */
const NO_KEY = -1;

/**
 * Maximum number of keys that are read with those of other requests: beyond, finding the common ones costs more than
 * reading them twice.
 */
export const MAX_JOINED = 100;

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
}

type Read = (
  namespace: Namespace,
  keys: string[],
  owner: string,
  collection: string | null,
) => Promise<BatchRead>;

/**
 * Joins the keys requested in one event-loop iteration into one lookup for each namespace and collection. While loads are
 * queued it makes one for each owner too, so that the queue can be fair to owners.
 */
export class LoadBatcher {
  readonly #read: Read;
  readonly #isContended: () => boolean;
  readonly #open = new Map<string, LoadBatch>();

  constructor(read: Read, isContended: () => boolean) {
    this.#read = read;
    this.#isContended = isContended;
  }

  /**
   * Returns the hotels of these keys in a collection (null: all hotels), in the order of the keys. Throws `Unavailable`.
   */
  async load(
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
    collection: string | null,
  ): Promise<Found[]> {
    if (keys.length > MAX_JOINED) return this.#loadAlone(namespace, keys, owner, collection);
    const whose = this.#isContended() ? owner : '';
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
    return pick(await batch.reading, places);
  }

  #begin(namespace: Namespace, name: string, owner: string, collection: string | null): LoadBatch {
    const { promise, resolve, reject } = Promise.withResolvers<BatchRead>();
    const batch: LoadBatch = { keys: [], places: new Map(), reading: promise };
    this.#open.set(name, batch);
    onIteration(() => {
      this.#open.delete(name);
      this.#read(namespace, batch.keys, owner, collection).then(resolve, reject);
    });
    return batch;
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
