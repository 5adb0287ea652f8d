import { Unavailable } from '../errors.ts';
import type { Found } from '../hotels/entry.ts';
import { LETTER, type Namespace } from '../hotels/namespace.ts';
import type { Origin } from '../hotels/repository.ts';
import type { CountAnswers } from './count-lookups.ts';
import { type Reading, Turns } from './load-batcher.ts';
import type { LocalCache } from './local-cache.ts';
import type { RecentChanges } from './recent-changes.ts';
import type { SharedCache } from './redis-hotel-cache.ts';
import { SharedReader } from './redis-hotel-reader.ts';
import { Flights } from './single-flight.ts';

/**
 * Reads hotels through Redis and falls back to PostgreSQL. What is asked for in one turn of the event loop goes
 * to Redis as one MGET (two where pointers are followed) and to PostgreSQL as one query; a key that is being
 * loaded from PostgreSQL is not loaded a second time.
 */
export class Reader {
  readonly #local: LocalCache | undefined;
  readonly #shared: SharedReader | undefined;
  readonly #recent: RecentChanges;
  readonly #isLinked: () => boolean;
  readonly #flights: Flights;
  readonly #turns: Turns;

  /** While not `isLinked` Redis may be behind unheard: then PostgreSQL is asked before it. */
  constructor(
    local: LocalCache | undefined,
    shared: SharedCache | undefined,
    origin: Origin,
    recent: RecentChanges,
    isLinked: () => boolean,
    count: CountAnswers,
  ) {
    this.#local = local;
    this.#shared = shared && new SharedReader(shared, recent, isLinked, count);
    this.#recent = recent;
    this.#isLinked = isLinked;
    this.#flights = new Flights(origin, shared, recent, isLinked, count);
    this.#turns = new Turns(
      (namespace, keys, owner) => this.#read(namespace, keys, owner),
      () => origin.contended,
    );
  }

  /**
   * The hotels that carry these keys, in the order of the keys, for an owner: an API key, or '' for none in particular.
   * Throws `Unavailable`.
   */
  load(namespace: Namespace, keys: readonly string[], owner: string): Promise<Found[]> {
    return this.#turns.load(namespace, keys, owner);
  }

  /** A change was heard of: who asks from now on does not share a load that began before it. */
  forgetLoads(namespace: Namespace, key: string): void {
    this.#flights.forget(namespace, key);
  }

  /** The same for every load under way. */
  forgetAllLoads(): void {
    this.#flights.forgetAll();
  }

  async #read(namespace: Namespace, keys: string[], owner: string): Promise<Reading> {
    if (keys.length === 0) return { found: [], loaded: Promise.resolve() };
    const began = this.#recent.position;
    const linked = this.#isLinked();
    const held = this.#heldLocally(namespace, keys);
    const found: (Found | undefined)[] =
      this.#shared && linked && !held?.every(Boolean)
        ? await this.#shared.read(namespace, keys, held)
        : (held ?? new Array(keys.length).fill(undefined));
    const missing: number[] = [];
    for (let i = 0; i < keys.length; i++) if (found[i] === undefined) missing.push(i);
    this.#storeLocally(namespace, keys, found, began, true, held);
    if (missing.length === 0) return { found, loaded: Promise.resolve() };
    const missed = missing.map((i) => keys[i]!);
    const fillIn = (answers: (Found | undefined)[]) =>
      missing.forEach((i, at) => {
        found[i] = answers[at];
      });
    const loaded = this.#flights.load(namespace, missed, owner).then(
      (hotels) => {
        fillIn(hotels);
        this.#storeLocally(namespace, missed, hotels, began, false);
      },
      async (error) => {
        if (!(error instanceof Unavailable)) throw error;
        const known = await this.#lastKnown(namespace, missed, linked);
        fillIn(known);
        if (known.includes(undefined)) throw error;
      },
    );
    // each of those who wait for it hears of its failure
    loaded.catch(() => {});
    return { found, loaded };
  }

  /** What the local cache holds of the keys; undefined where it holds none of them. */
  #heldLocally(namespace: Namespace, keys: string[]): (Found | undefined)[] | undefined {
    const held = this.#local && keys.map((key) => this.#local!.held(namespace, key));
    return held?.some(Boolean) ? held : undefined;
  }

  /** What any cache holds, however old: for when PostgreSQL cannot be asked. It is stored nowhere. */
  async #lastKnown(
    namespace: Namespace,
    keys: string[],
    askedShared: boolean,
  ): Promise<(Found | undefined)[]> {
    const known = keys.map((key) => this.#local?.lastKnown(namespace, key));
    const rest = keys.filter((_, i) => known[i] === undefined);
    if (rest.length === 0 || !this.#shared || askedShared) return known;
    const shared = await this.#shared.read(namespace, rest, undefined);
    return known.map((entry) => (entry === undefined ? shared.shift() : entry));
  }

  /** Stores what was found elsewhere than in the local cache: what is `held` there keeps its age. */
  #storeLocally(
    namespace: Namespace,
    keys: string[],
    found: (Found | undefined)[],
    began: number,
    isShared: boolean,
    held?: (Found | undefined)[],
  ): void {
    const local = this.#local;
    if (!local) return;
    for (let i = 0; i < keys.length; i++) {
      const entry = found[i];
      if (held?.[i]) continue;
      if (entry) {
        const name = LETTER.id + entry.id;
        // a load that was joined may have begun before what was heard of since
        if (this.#recent.mayStore(name, began) && !this.#recent.isOutdated(name, entry.version))
          local.store(entry, isShared);
      } else if (entry === null && this.#recent.mayStore(LETTER[namespace] + keys[i], began))
        local.storeAbsent(namespace, keys[i]!, isShared);
    }
  }
}
