import { Unavailable } from '../errors.ts';
import type { RecentChanges } from '../recent-changes.ts';
import type { Entry, Found } from './entry.ts';
import type { LocalCache } from './local.ts';
import { LETTER, mayExist, type Namespace } from './namespace.ts';
import type { Origin } from './origin.ts';
import type { SharedCache } from './shared.ts';

/** Is told what a tier said of the keys it was asked for. */
export type CountAnswers = (
  tier: 'redis' | 'postgres',
  answer: 'hit' | 'absent' | 'miss',
  keys: number,
) => void;

/** The place of a key that no hotel can carry. */
const NOWHERE = -1;

/** A larger batch goes to Redis by itself: to find what it has in common with others costs more than asking twice. */
const JOINED_AT_MOST = 100;

/** What the requests of one turn of the event loop ask for in one namespace. */
interface Turn {
  keys: string[];
  places: Map<string, number>;
  reading: Promise<Reading>;
}

/**
 * A look-up whose caches have answered. Who asks only for what they know does not wait for PostgreSQL, and is not
 * refused, because others of the same turn ask for more.
 */
interface Reading {
  /** undefined: no cache knows; filled in when `loaded` settles, as far as can be */
  found: (Found | undefined)[];
  /** settles when PostgreSQL has answered; `Unavailable` where it cannot be asked and somebody misses something */
  loaded: Promise<void>;
}

/**
 * Reads hotels through Redis and falls back to PostgreSQL. What is asked for in one turn of the event loop goes
 * to Redis as one MGET (two where pointers are followed) and to PostgreSQL as one query; a key that is being
 * loaded from PostgreSQL is not loaded a second time.
 */
export class Reader {
  readonly #shared: SharedCache | undefined;
  readonly #origin: Origin;
  readonly #recent: RecentChanges;
  readonly #count: CountAnswers;
  readonly #turns = new Map<Namespace, Turn>();
  readonly #flights: Record<Namespace, Map<string, Promise<Map<string, Entry>>>> = {
    id: new Map(),
    channel: new Map(),
    registry: new Map(),
  };

  /** hotels that a midnight has turned and that are on their way to Redis */
  readonly #turning = new Set<string>();

  readonly #local: LocalCache | undefined;
  readonly #isLinked: () => boolean;

  /** While not `isLinked` Redis may be behind unheard: then PostgreSQL is asked before it. */
  constructor(
    local: LocalCache | undefined,
    shared: SharedCache | undefined,
    origin: Origin,
    recent: RecentChanges,
    isLinked: () => boolean,
    count: CountAnswers,
  ) {
    this.#isLinked = isLinked;
    this.#local = local;
    this.#shared = shared;
    this.#origin = origin;
    this.#recent = recent;
    this.#count = count;
  }

  /** The hotels that carry these keys, in the order of the keys. Throws `Unavailable`. */
  async load(namespace: Namespace, keys: readonly string[]): Promise<Found[]> {
    if (keys.length > JOINED_AT_MOST) {
      const existing = keys.filter((key) => mayExist(namespace, key));
      const places = existing.map((_, i) => i);
      const found = await pick(await this.#read(namespace, existing), places);
      if (existing.length === keys.length) return found;
      let next = 0;
      return keys.map((key) => (key === existing[next] ? found[next++]! : null));
    }
    let turn = this.#turns.get(namespace);
    if (!turn) {
      const { promise, resolve, reject } = Promise.withResolvers<Reading>();
      const opened: Turn = { keys: [], places: new Map(), reading: promise };
      this.#turns.set(namespace, opened);
      setImmediate(() => {
        this.#turns.delete(namespace);
        this.#read(namespace, opened.keys).then(resolve, reject);
      });
      turn = opened;
    }
    const places: number[] = [];
    for (const key of keys) {
      if (!mayExist(namespace, key)) {
        places.push(NOWHERE);
        continue;
      }
      let place = turn.places.get(key);
      if (place === undefined) {
        place = turn.keys.push(key) - 1;
        turn.places.set(key, place);
      }
      places.push(place);
    }
    return pick(await turn.reading, places);
  }

  /** A change was heard of: who asks from now on does not share a load that began before it. */
  forgetLoads(namespace: Namespace, key: string): void {
    this.#flights[namespace].delete(key);
  }

  /** The same for every load under way. */
  forgetAllLoads(): void {
    for (const flights of Object.values(this.#flights)) flights.clear();
  }

  async #read(namespace: Namespace, keys: string[]): Promise<Reading> {
    if (keys.length === 0) return { found: [], loaded: Promise.resolve() };
    const began = this.#recent.position;
    const linked = this.#isLinked();
    const held = this.#heldLocally(namespace, keys);
    const found: (Found | undefined)[] =
      this.#shared && linked && !held?.every(Boolean)
        ? await this.#readShared(namespace, keys, held)
        : (held ?? new Array(keys.length).fill(undefined));
    const missing: number[] = [];
    for (let i = 0; i < keys.length; i++) if (found[i] === undefined) missing.push(i);
    this.#storeLocally(namespace, keys, found, began);
    if (missing.length === 0) return { found, loaded: Promise.resolve() };
    const loaded = this.#readOrigin(namespace, keys, missing, found).then(
      () => {
        const loadedKeys = missing.map((i) => keys[i]!);
        const loadedHotels = missing.map((i) => found[i]);
        this.#storeLocally(namespace, loadedKeys, loadedHotels, began);
      },
      async (error) => {
        if (!(error instanceof Unavailable)) throw error;
        const known = await this.#lastKnown(
          namespace,
          missing.map((i) => keys[i]!),
          linked,
        );
        missing.forEach((i, at) => {
          found[i] = known[at];
        });
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
    const shared = await this.#readShared(namespace, rest, undefined);
    return known.map((entry) => (entry === undefined ? shared.shift() : entry));
  }

  #storeLocally(namespace: Namespace, keys: string[], found: (Found | undefined)[], began: number): void {
    const local = this.#local;
    if (!local) return;
    for (let i = 0; i < keys.length; i++) {
      const entry = found[i];
      if (entry) {
        const name = LETTER.id + entry.id;
        // a load that was joined may have begun before what was heard of since
        if (this.#recent.mayStore(name, began) && !this.#recent.isOutdated(name, entry.version))
          local.store(entry);
      } else if (entry === null && this.#recent.mayStore(LETTER[namespace] + keys[i], began))
        local.storeAbsent(namespace, keys[i]!);
    }
  }

  /** What Redis knows of the keys; where `known` holds an answer already, that one. */
  async #readShared(
    namespace: Namespace,
    keys: string[],
    known: (Found | undefined)[] | undefined,
  ): Promise<(Found | undefined)[]> {
    const asked = known ? keys.filter((_, i) => known[i] === undefined) : keys;
    const answers =
      namespace === 'id'
        ? this.#checked(await this.#shared!.entries(asked))
        : await this.#readPointers(namespace, asked);
    let absent = 0;
    let misses = 0;
    for (const answer of answers) {
      if (answer === null) absent++;
      else if (answer === undefined) misses++;
    }
    this.#count('redis', 'hit', asked.length - absent - misses);
    this.#count('redis', 'absent', absent);
    this.#count('redis', 'miss', misses);
    if (!known) return answers;
    let next = 0;
    return known.map((answer) => answer ?? answers[next++]);
  }

  async #readPointers(namespace: 'channel' | 'registry', keys: string[]): Promise<(Found | undefined)[]> {
    const shared = this.#shared!;
    const ids = await shared.pointers(namespace, keys);
    const asked = ids.filter((id) => typeof id === 'string');
    const entries = this.#checked(asked.length > 0 ? await shared.entries(asked) : []);
    let next = 0;
    const unconfirmed: string[] = [];
    const found = ids.map((id, i) => {
      // a late fill may have called absent what was heard of since
      if (id === null && this.#recent.heardOf(LETTER[namespace] + keys[i])) return undefined;
      if (typeof id !== 'string') return id;
      const entry = entries[next++];
      if (entry?.isOf(namespace, keys[i]!)) return entry;
      // the pointer is out of date and tells nothing of who carries the id now
      if (entry !== undefined) unconfirmed.push(keys[i]!);
      return undefined;
    });
    if (unconfirmed.length > 0) shared.removePointers(namespace, unconfirmed);
    return found;
  }

  /** What Redis held, as it reads today; undefined where a newer version was heard of. */
  #checked(entries: (Entry | undefined)[]): (Found | undefined)[] {
    const nowMs = Date.now();
    const turned: Entry[] = [];
    const checked = entries.map((entry) => {
      if (!entry || this.#recent.isOutdated(LETTER.id + entry.id, entry.version)) return undefined;
      if (!entry.present) return null;
      const today = entry.at(nowMs);
      if (today !== entry && !this.#turning.has(today.id)) turned.push(today);
      return today;
    });
    if (turned.length > 0 && this.#isLinked()) this.#fillTurned(turned);
    return checked;
  }

  /** Turned entries replace those in Redis, each once, however many ask for them at midnight. */
  async #fillTurned(turned: Entry[]): Promise<void> {
    for (const { id } of turned) this.#turning.add(id);
    await this.#shared?.fill(turned);
    for (const { id } of turned) this.#turning.delete(id);
  }

  async #readOrigin(
    namespace: Namespace,
    keys: string[],
    missing: number[],
    found: (Found | undefined)[],
  ): Promise<void> {
    const outdated = await this.#joinLoads(namespace, keys, missing, found);
    // a change tells of the keys that a hotel carries since, not of one that it gave up: its load was joined, and is old
    if (outdated.length > 0) await this.#joinLoads(namespace, keys, outdated, found);
  }

  /** Loads what nobody loads yet. Returns the places of hotels that have changed since their load began. */
  async #joinLoads(
    namespace: Namespace,
    keys: string[],
    missing: number[],
    found: (Found | undefined)[],
  ): Promise<number[]> {
    const flights = this.#flights[namespace];
    const joined = new Set<Promise<Map<string, Entry>>>();
    const own: string[] = [];
    for (const i of missing) {
      const flight = flights.get(keys[i]!);
      if (flight) joined.add(flight);
      else own.push(keys[i]!);
    }
    if (own.length > 0) {
      const flight = this.#fly(namespace, own);
      for (const key of own) flights.set(key, flight);
      flight
        .finally(() => {
          for (const key of own) if (flights.get(key) === flight) flights.delete(key);
        })
        .catch(() => {});
      joined.add(flight);
    }
    const loads = await Promise.all(joined);
    for (const i of missing) {
      const key = keys[i]!;
      found[i] = null;
      for (const load of loads) found[i] = load.get(key) ?? found[i]!;
    }
    return missing.filter((i) => {
      const entry = found[i];
      return entry && this.#recent.isOutdated(LETTER.id + entry.id, entry.version);
    });
  }

  /** Loads keys from PostgreSQL and fills Redis with what was found and what was not; nobody waits for the filling. */
  async #fly(namespace: Namespace, keys: string[]): Promise<Map<string, Entry>> {
    const began = this.#recent.position;
    const entries = await this.#origin.load(namespace, keys);
    const byKey = new Map<string, Entry>();
    for (const entry of entries) {
      const key =
        namespace === 'id' ? entry.id : namespace === 'channel' ? entry.channelId : entry.registryId;
      byKey.set(key!, entry);
    }
    this.#count('postgres', 'hit', entries.length);
    this.#count('postgres', 'absent', keys.length - entries.length);
    // after the answers have gone out: it takes as long as all the rest
    setImmediate(() => this.#fillShared(namespace, keys, byKey, began));
    return byKey;
  }

  #fillShared(namespace: Namespace, keys: string[], loaded: Map<string, Entry>, began: number): void {
    if (!this.#shared || !this.#isLinked()) return;
    const storable = [...loaded.values()].filter((entry) =>
      this.#recent.mayStore(LETTER.id + entry.id, began),
    );
    const absent = keys.filter(
      (key) => !loaded.has(key) && this.#recent.mayStore(LETTER[namespace] + key, began),
    );
    if (storable.length > 0) this.#shared.fill(storable);
    if (absent.length > 0) this.#shared.rememberAbsent(namespace, absent);
  }
}

/** What was found at these places; waits for PostgreSQL only where one of them needs it. Throws `Unavailable`. */
async function pick({ found, loaded }: Reading, places: number[]): Promise<Found[]> {
  const isMissing = (place: number) => place !== NOWHERE && found[place] === undefined;
  if (places.some(isMissing)) {
    try {
      await loaded;
    } catch (error) {
      if (places.some(isMissing)) throw error;
    }
  }
  return places.map((place) => (place === NOWHERE ? null : found[place]!));
}
