import type { Entry, Found } from '../hotels/entry.ts';
import { LETTER, type Namespace } from '../hotels/namespace.ts';
import type { HotelRepository } from '../hotels/repository.ts';
import type { CountLookups } from './count-lookups.ts';
import type { RecentChanges } from './recent-changes.ts';
import type { RedisHotelCache } from './redis-hotel-cache.ts';

type Loaded = Map<string, Entry>;

/** The loads from PostgreSQL that are under way: a key that is being loaded is not loaded a second time. */
export class SingleFlight {
  readonly #repository: HotelRepository;
  readonly #cache: RedisHotelCache | undefined;
  readonly #recent: RecentChanges;
  readonly #isFeedUp: () => boolean;
  readonly #count: CountLookups;
  readonly #inFlight: Record<Namespace, Map<string, Promise<Loaded>>> = {
    id: new Map(),
    channel: new Map(),
    registry: new Map(),
  };

  /** What is loaded fills `shared` while `isLinked`. */
  constructor(
    origin: HotelRepository,
    redisCache: RedisHotelCache | undefined,
    recent: RecentChanges,
    isFeedUp: () => boolean,
    count: CountLookups,
  ) {
    this.#repository = origin;
    this.#cache = redisCache;
    this.#recent = recent;
    this.#isFeedUp = isFeedUp;
    this.#count = count;
  }

  /** A change was heard of: who asks from now on does not share a load that began before it. */
  forget(namespace: Namespace, key: string): void {
    this.#inFlight[namespace].delete(key);
  }

  /** The same for every load under way. */
  forgetAll(): void {
    for (const flights of Object.values(this.#inFlight)) flights.clear();
  }

  /** The hotels that carry these keys, in their order. Throws `Unavailable`. */
  async load(namespace: Namespace, keys: string[], owner: string): Promise<Found[]> {
    const found = await this.#join(namespace, keys, owner);
    // a change tells of the keys that a hotel carries since, not of one that it gave up: its load was joined, and is old
    const outdated = keys.filter((_, i) => this.#isOutdated(found[i]!));
    if (outdated.length === 0) return found;
    const again = await this.#join(namespace, outdated, owner);
    const byKey = new Map(outdated.map((key, i) => [key, again[i]!]));
    return found.map((entry, i) => {
      const fresh = byKey.get(keys[i]!);
      return fresh === undefined ? entry : fresh;
    });
  }

  #isOutdated(entry: Found): boolean {
    return entry !== null && this.#recent.isOutdated(LETTER.id + entry.id, entry.version);
  }

  /** Loads what nobody loads yet, and waits for all of it. */
  async #join(namespace: Namespace, keys: string[], owner: string): Promise<Found[]> {
    const flights = this.#inFlight[namespace];
    const joined = new Set<Promise<Loaded>>();
    const own: string[] = [];
    for (const key of keys) {
      const flight = flights.get(key);
      if (flight) joined.add(flight);
      else own.push(key);
    }
    if (own.length > 0) {
      const flight = this.#start(namespace, own, owner);
      for (const key of own) flights.set(key, flight);
      flight
        .finally(() => {
          for (const key of own) if (flights.get(key) === flight) flights.delete(key);
        })
        .catch(() => {});
      joined.add(flight);
    }
    const loads = await Promise.all(joined);
    return keys.map((key) => {
      let found: Found = null;
      for (const load of loads) found = load.get(key) ?? found;
      return found;
    });
  }

  /** Loads keys from PostgreSQL and fills Redis with what was found and what was not; nobody waits for the filling. */
  async #start(namespace: Namespace, keys: string[], owner: string): Promise<Loaded> {
    const began = this.#recent.position;
    const entries = await this.#repository.load(namespace, keys, owner);
    const byKey: Loaded = new Map();
    for (const entry of entries) {
      const key =
        namespace === 'id' ? entry.id : namespace === 'channel' ? entry.channelId : entry.registryId;
      byKey.set(key!, entry);
    }
    this.#count('postgres', 'hit', entries.length);
    this.#count('postgres', 'absent', keys.length - entries.length);
    // after the answers have gone out: it takes as long as all the rest
    setImmediate(() => this.#fillRedis(namespace, keys, byKey, began));
    return byKey;
  }

  #fillRedis(namespace: Namespace, keys: string[], loaded: Loaded, began: number): void {
    if (!this.#cache || !this.#isFeedUp()) return;
    const storable = [...loaded.values()].filter((entry) =>
      this.#recent.mayStore(LETTER.id + entry.id, began),
    );
    const absent = keys.filter(
      (key) => !loaded.has(key) && this.#recent.mayStore(LETTER[namespace] + key, began),
    );
    if (storable.length > 0) this.#cache.fill(storable);
    if (absent.length > 0) this.#cache.rememberAbsent(namespace, absent);
  }
}
