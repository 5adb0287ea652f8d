import type { Found, View } from '../hotels/entry.ts';
import { Entry } from '../hotels/entry.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { monotonicMs, wallAt } from '../lib/clock.ts';
import { ABSENT, MISS, Slab } from './arena/arena.ts';
import { type Gathered, OK } from './arena/batch-lookup.ts';

/**
 * Past this age an entry is read again in the background when it is next asked for; at random up to half of it less or
 * more, so that what was stored in one instant is read again at an even rate. The change feed keeps entries true; this
 * bounds what a lost change would do. It costs a look-up an entry:
 * at 60 s, with 100,000 entries in use, a GET cost 10 to 20 µs instead of 8 for seconds on end.
 */
const REFRESH_MS = 900_000;
/** While the change feed is silent nothing older than this is answered without asking. */
const UNLINKED_MS = 5_000;
/** Whatever the feed says, nothing older than this is answered without asking. */
const MAX_AGE_MS = 3_600_000;
/** Past so many entries that are dropped at once everything is: it takes less time. */
const DROPPED_AT_MOST = 50_000;

/** What the local cache asks of its surroundings. */
export interface Surroundings {
  /** false while changes may be made that are not heard of; `nowMs`: monotonic */
  isLinked: (nowMs: number) => boolean;
  absentTtlMs: number;
  /** reads keys again and stores them here; nobody waits for it */
  refresh: (namespace: Namespace, keys: string[]) => void;
  /** keys looked up, by what was said of them: raised here */
  counts: { hit: number; absent: number; miss: number };
}

/**
 * The first tier: a slab, and when what it holds may be answered. All of it is synchronous. Views that it returns
 * hold until its next call.
 */
export class LocalCache {
  readonly #slab: Slab;
  readonly #around: Surroundings;
  readonly #counts: Surroundings['counts'];
  readonly #refreshing = new Set<string>();
  /** what was stored before is only answered where nobody can be asked */
  #trustedFromMs = -Infinity;

  constructor(maxBytes: number, surroundings: Surroundings) {
    this.#slab = new Slab(maxBytes);
    this.#around = surroundings;
    this.#counts = surroundings.counts;
  }

  get slab(): Slab {
    return this.#slab;
  }

  /** A ref into the slab, or ABSENT, or MISS. */
  find(namespace: Namespace, key: string, nowMs = monotonicMs()): number {
    const ref = this.#slab.find(namespace, key, nowMs, this.#oldestMs(nowMs), wallAt(nowMs));
    if (ref > 0) {
      this.#counts.hit++;
      if (this.#slab.softUntil(ref) <= nowMs) this.#refresh(namespace, [key]);
    } else if (ref === ABSENT) this.#counts.absent++;
    else this.#counts.miss++;
    return ref;
  }

  /**
   * Answers the body of a batch request; undefined: something is wrong with it, or it or its answer is too large for
   * the slab. Unless `mayMiss` also where something is missed: it will be asked again,
   * and is counted then.
   */
  gatherBody(
    namespace: 'channel' | 'registry',
    body: Uint8Array,
    view: View,
    mayMiss: boolean,
  ): Gathered | undefined {
    const nowMs = monotonicMs();
    const gathered = this.#slab.gather(namespace, body, view, nowMs, this.#oldestMs(nowMs), wallAt(nowMs));
    if (!mayMiss && gathered.misses > 0) return undefined;
    return this.#judged(namespace, gathered, nowMs);
  }

  /** The same for parsed keys; undefined: the answer is too large for the slab. */
  gatherKeys(namespace: Namespace, keys: readonly string[], view: View): Gathered | undefined {
    const nowMs = monotonicMs();
    const gathered = this.#slab.gatherKeys(
      namespace,
      keys,
      view,
      nowMs,
      this.#oldestMs(nowMs),
      wallAt(nowMs),
    );
    return this.#judged(namespace, gathered, nowMs);
  }

  /** `isShared`: it comes from Redis. */
  store(entry: Entry, isShared: boolean): void {
    const nowMs = monotonicMs();
    this.#slab.put(entry.bytes, nowMs, nowMs + REFRESH_MS * (0.5 + Math.random()), isShared);
  }

  storeAbsent(namespace: Namespace, key: string, isShared: boolean): void {
    const nowMs = monotonicMs();
    this.#slab.putAbsent(
      namespace,
      key,
      nowMs,
      nowMs + this.#around.absentTtlMs * (0.5 + 0.5 * Math.random()),
      isShared,
    );
  }

  /**
   * The hotel of this key where it is held and nobody has to be asked: because only a midnight has made it untrue,
   * then it is turned to today, here too, or because somebody has stored it since it was missed.
   */
  held(namespace: Namespace, key: string): Entry | undefined {
    const nowMs = monotonicMs();
    // before all time nothing has turned
    const ref = this.#slab.find(namespace, key, -Infinity, this.#oldestMs(nowMs));
    if (ref <= 0) return undefined;
    const [storedAtMs, softUntilMs] = [this.#slab.storedAt(ref), this.#slab.softUntil(ref)];
    const wallMs = wallAt(nowMs);
    const turned = this.#slab.turnsAt(ref) <= wallMs;
    // this may be its refresh
    if (!turned && softUntilMs <= nowMs) return undefined;
    const entry = new Entry(this.#slab.read(ref)).at(wallMs);
    if (turned) this.#slab.put(entry.bytes, storedAtMs, softUntilMs, this.#slab.isShared(ref));
    return entry;
  }

  /** What is held for a key however old it is, as it reads today: for when nobody can be asked. Undefined: nothing. */
  lastKnown(namespace: Namespace, key: string): Found | undefined {
    // before all time nothing has expired
    const ref = this.#slab.find(namespace, key, -Infinity);
    if (ref === MISS) return undefined;
    return ref === ABSENT ? null : new Entry(this.#slab.read(ref)).at(wallAt(monotonicMs()));
  }

  /** Forgets the hotel or the absence that this key leads to. */
  drop(namespace: Namespace, key: string): void {
    this.#slab.drop(namespace, key);
  }

  clear(): void {
    this.#slab.clear();
    this.#trustedFromMs = -Infinity;
  }

  /** Anything may have changed: what is held counts as unknown, but for `lastKnown`. */
  distrust(): void {
    // what is stored within this microsecond may have been stored before
    this.#trustedFromMs = monotonicMs() + 0.001;
  }

  /** Forgets what came from Redis since then, and perhaps more. */
  dropSharedSince(sinceMs: number): void {
    this.#slab.dropSharedSince(sinceMs, DROPPED_AT_MOST);
  }

  #oldestMs(nowMs: number): number {
    return Math.max(this.#trustedFromMs, nowMs - (this.#around.isLinked(nowMs) ? MAX_AGE_MS : UNLINKED_MS));
  }

  #judged(namespace: Namespace, gathered: Gathered, nowMs: number): Gathered | undefined {
    if (gathered.status !== OK) return undefined;
    this.#counts.hit += gathered.hits;
    this.#counts.absent += gathered.absences;
    this.#counts.miss += gathered.misses;
    if (gathered.soonestSoftMs <= nowMs) this.#refresh(namespace, gathered.softKeys(nowMs));
    return gathered;
  }

  #refresh(namespace: Namespace, keys: string[]): void {
    const names = keys.map((key) => `${namespace} ${key}`);
    const stale = keys.filter((_, i) => !this.#refreshing.has(names[i]!));
    if (stale.length === 0) return;
    for (const name of names) this.#refreshing.add(name);
    // the entries stay as they are until the new ones are there; the next look is a second away
    const forget = () => {
      for (const name of names) this.#refreshing.delete(name);
    };
    setTimeout(forget, 1_000).unref();
    // in another turn: what was found in this one holds only until the slab's next call
    setImmediate(() => this.#around.refresh(namespace, stale));
  }
}
