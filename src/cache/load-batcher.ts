import { Unavailable } from '../errors.ts';
import type { Found } from '../hotels/entry.ts';
import { type HotelSizes, MAX_HOTEL_BYTES } from '../hotels/hotel-sizes.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { monotonicMs, nextIteration } from '../lib/clock.ts';
import { DeadlineExceeded } from '../lib/deadline.ts';
import { type Hold, Turns } from '../lib/turns.ts';

/**
 * Bytes of hotels that are looked up at once: of usual hotels until the caches have answered, of large ones until PostgreSQL has
 * too. More in one reply of Redis takes longer than its deadline on a busy machine.
 */
const MAX_READING_BYTES = 512 * 1024;
/** Maximum wait of a lookup of large hotels. */
const MAX_LOOKUP_WAIT_MS = 500;

/**
 * Lookup that the caches have answered. A caller whose keys are all found does not wait for PostgreSQL, and does not
 * fail with it, when other callers of the same lookup miss keys.
 */
export interface LookupResult {
  /** by key, null if there is none; lacks those in no cache, is completed as far as possible when `loaded` settles */
  found: Map<string, Found>;
  /** settles after the load from PostgreSQL; rejects with `Unavailable` if keys remain missing */
  loaded: Promise<void>;
}

/** Keys requested in one event-loop iteration in one namespace. */
interface JoinedLookup {
  keys: Set<string>;
  requests: { owner: string; keys: readonly string[] }[];
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
 * Lookups are queued by the bytes that are expected. Those of large hotels have a queue of their own, in which they wait for
 * PostgreSQL: the others need not.
 */
export class LoadBatcher {
  readonly #read: LookUp;
  readonly #isContended: () => boolean;
  readonly #open = new Map<string, JoinedLookup>();
  readonly #sizes: HotelSizes;
  readonly #usual = new Turns(MAX_READING_BYTES, 1, MAX_HOTEL_BYTES);
  readonly #large = new Turns(MAX_READING_BYTES, 1, MAX_HOTEL_BYTES, MAX_LOOKUP_WAIT_MS);

  constructor(read: LookUp, sizes: HotelSizes, isContended: () => boolean) {
    this.#read = read;
    this.#sizes = sizes;
    this.#isContended = isContended;
  }

  /** Looks up these keys in a collection (null: all hotels), and maybe others. Rejects with `Unavailable`. */
  join(
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
    collection: string | null,
  ): Promise<LookupResult> {
    const isOwn = this.#sizes.areLarge(owner) || this.#usual.waiting.length > 0 || this.#isContended();
    const whose = isOwn ? owner : '';
    // of most requests a constant, whose hash is known
    const name =
      whose === '' && collection === null ? namespace : JSON.stringify([namespace, whose, collection]);
    const joined = this.#open.get(name) ?? this.#begin(namespace, name, whose, collection);
    for (const key of keys) joined.keys.add(key);
    joined.requests.push({ owner, keys });
    if (this.#bytesOf(joined, whose) >= MAX_READING_BYTES) this.#open.delete(name);
    return joined.reading;
  }

  /** Returns true if a new lookup of this owner would wait in the queue of large hotels. */
  mustWait(owner: string): boolean {
    return this.#large.mustWait && this.#sizes.areLarge(owner);
  }

  #begin(namespace: Namespace, name: string, owner: string, collection: string | null): JoinedLookup {
    const lookUp = async (): Promise<LookupResult> => {
      if (this.#open.get(name) === joined) this.#open.delete(name);
      const { keys, requests } = joined;
      const bytes = this.#bytesOf(joined, owner);
      const areLarge = this.#sizes.areLarge(owner);
      const read = async (hold: Hold) => {
        const result = await this.#read(namespace, [...keys], owner, collection);
        const { found, loaded } = result;
        const note = () => {
          for (const { owner: by, keys: requested } of requests)
            this.#sizes.noteLookup(
              by,
              requested.map((key) => found.get(key)),
            );
        };
        // its requests fail with it
        const noted = loaded.then(note).catch(() => {});
        if (areLarge) hold(noted, bytes * (1 - found.size / keys.size));
        return result;
      };
      const turns = areLarge ? this.#large : this.#usual;
      return turns.run(owner, bytes, read, monotonicMs(), bytes).catch(tooLate);
    };
    const joined: JoinedLookup = { keys: new Set(), requests: [], reading: nextIteration().then(lookUp) };
    this.#open.set(name, joined);
    return joined;
  }

  #bytesOf({ keys }: JoinedLookup, owner: string): number {
    return keys.size * this.#sizes.of(owner);
  }
}

function tooLate(error: unknown): never {
  if (!(error instanceof DeadlineExceeded)) throw error;
  throw new Unavailable('more large hotels wait than can be read in time', 'overload');
}
