import type { Found } from '../hotels/entry.ts';
import { mayExist, type Namespace } from '../hotels/namespace.ts';

/** The place of a key that no hotel can carry. */
const NO_KEY = -1;

/** A larger batch goes to Redis by itself: to find what it has in common with others costs more than asking twice. */
const MAX_JOINED = 100;

/**
 * A look-up whose caches have answered. Who asks only for what they know does not wait for PostgreSQL, and is not
 * refused, because others of the same turn ask for more.
 */
export interface BatchRead {
  /** undefined: no cache knows; filled in when `loaded` settles, as far as can be */
  found: (Found | undefined)[];
  /** settles when PostgreSQL has answered; `Unavailable` where it cannot be asked and somebody misses something */
  loaded: Promise<void>;
}

/** What the requests of one turn of the event loop ask for in one namespace. */
interface LoadBatch {
  keys: string[];
  places: Map<string, number>;
  reading: Promise<BatchRead>;
}

type Read = (namespace: Namespace, keys: string[], owner: string) => Promise<BatchRead>;

/**
 * Joins what is asked for in one turn of the event loop into one look-up for each namespace; while loads wait for one
 * another, into one for each owner too, so that they can be shared out.
 */
export class LoadBatcher {
  readonly #read: Read;
  readonly #isContended: () => boolean;
  readonly #open: Record<Namespace, Map<string, LoadBatch>> = {
    id: new Map(),
    channel: new Map(),
    registry: new Map(),
  };

  constructor(read: Read, isContended: () => boolean) {
    this.#read = read;
    this.#isContended = isContended;
  }

  /** What carries these keys, in their order. Throws `Unavailable`. */
  async load(namespace: Namespace, keys: readonly string[], owner: string): Promise<Found[]> {
    if (keys.length > MAX_JOINED) return this.#loadAlone(namespace, keys, owner);
    const whose = this.#isContended() ? owner : '';
    const batch = this.#open[namespace].get(whose) ?? this.#begin(namespace, whose);
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

  #begin(namespace: Namespace, owner: string): LoadBatch {
    const { promise, resolve, reject } = Promise.withResolvers<BatchRead>();
    const batch: LoadBatch = { keys: [], places: new Map(), reading: promise };
    this.#open[namespace].set(owner, batch);
    setImmediate(() => {
      this.#open[namespace].delete(owner);
      this.#read(namespace, batch.keys, owner).then(resolve, reject);
    });
    return batch;
  }

  async #loadAlone(namespace: Namespace, keys: readonly string[], owner: string): Promise<Found[]> {
    const existing = keys.filter((key) => mayExist(namespace, key));
    const places = existing.map((_, i) => i);
    const found = await pick(await this.#read(namespace, existing, owner), places);
    if (existing.length === keys.length) return found;
    let next = 0;
    return keys.map((key) => (key === existing[next] ? found[next++]! : null));
  }
}

/** What was found at these places; waits for PostgreSQL only where one of them needs it. Throws `Unavailable`. */
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
