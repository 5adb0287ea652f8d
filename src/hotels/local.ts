import type { View } from './entry.ts';
import { Entry } from './entry.ts';
import type { Namespace } from './namespace.ts';
import type { Found } from './reader.ts';
import { type Gathered, OK } from './slab/gathered.ts';
import { ABSENT, CHANNEL_ID, ID, MISS, REGISTRY_ID, Slab } from './slab/slab.ts';

/** The slab's numbers of the namespaces. */
const NUMBER = { id: ID, channel: CHANNEL_ID, registry: REGISTRY_ID } as const;
/** Past this age an entry is read again in the background when it is next asked for; at random up to a fifth less or more. */
const REFRESH_MS = 60_000;
/** While the change feed is silent nothing older than this is answered without asking. */
const UNLINKED_MS = 5_000;
/** Whatever the feed says, nothing older than this is answered without asking. */
const MAX_AGE_MS = 3_600_000;

/** What the local cache asks of its surroundings. */
export interface Surroundings {
  /** false while changes may be made that are not heard of */
  isLinked: () => boolean;
  absentTtlMs: number;
  /** reads keys again and stores them here; nobody waits for it */
  refresh: (namespace: Namespace, keys: string[]) => void;
  count: (answer: 'hit' | 'absent' | 'miss', keys: number) => void;
}

/**
 * The first tier: a slab, and when what it holds may be answered. All of it is synchronous. Views that it returns
 * hold until its next call.
 */
export class LocalCache {
  readonly #slab: Slab;
  readonly #around: Surroundings;
  readonly #refreshing = new Set<string>();

  constructor(maxBytes: number, surroundings: Surroundings) {
    this.#slab = new Slab(maxBytes);
    this.#around = surroundings;
  }

  get slab(): Slab {
    return this.#slab;
  }

  /** A ref into the slab, or ABSENT, or MISS. */
  find(namespace: Namespace, key: string): number {
    const nowMs = Date.now();
    const ref = this.#slab.find(NUMBER[namespace], key, nowMs, this.#oldestMs(nowMs));
    if (ref > 0) {
      this.#around.count('hit', 1);
      if (this.#slab.softUntil(ref) <= nowMs) this.#refresh(namespace, [key]);
    } else this.#around.count(ref === ABSENT ? 'absent' : 'miss', 1);
    return ref;
  }

  /**
   * Answers the body of a batch request where it has the plain form; undefined: it must be parsed by other means,
   * or the answer is too large for the slab.
   */
  gatherBody(namespace: 'channel' | 'registry', body: Uint8Array, view: View): Gathered | undefined {
    const nowMs = Date.now();
    const number = namespace === 'channel' ? CHANNEL_ID : REGISTRY_ID;
    return this.#judged(
      namespace,
      this.#slab.gather(number, body, view, nowMs, this.#oldestMs(nowMs)),
      nowMs,
    );
  }

  /** The same for parsed keys; undefined: the answer is too large for the slab. */
  gatherKeys(namespace: Namespace, keys: readonly string[], view: View): Gathered | undefined {
    const nowMs = Date.now();
    const gathered = this.#slab.gatherKeys(NUMBER[namespace], keys, view, nowMs, this.#oldestMs(nowMs));
    return this.#judged(namespace, gathered, nowMs);
  }

  store(entry: Entry): void {
    const nowMs = Date.now();
    this.#slab.put(entry.bytes, nowMs, nowMs + REFRESH_MS * (0.8 + 0.4 * Math.random()));
  }

  storeAbsent(namespace: Namespace, key: string): void {
    const nowMs = Date.now();
    this.#slab.putAbsent(NUMBER[namespace], key, nowMs, nowMs + this.#around.absentTtlMs);
  }

  /** What is held for a key however old it is, as it reads today: for when nobody can be asked. Undefined: nothing. */
  lastKnown(namespace: Namespace, key: string): Found | undefined {
    // before all time nothing has expired
    const ref = this.#slab.find(NUMBER[namespace], key, -Infinity);
    if (ref === MISS) return undefined;
    return ref === ABSENT ? null : new Entry(this.#slab.read(ref)).at(Date.now());
  }

  /** Forgets the hotel or the absence that this key leads to. */
  drop(namespace: Namespace, key: string): void {
    this.#slab.drop(NUMBER[namespace], key);
  }

  clear(): void {
    this.#slab.clear();
  }

  #oldestMs(nowMs: number): number {
    return nowMs - (this.#around.isLinked() ? MAX_AGE_MS : UNLINKED_MS);
  }

  #judged(namespace: Namespace, gathered: Gathered, nowMs: number): Gathered | undefined {
    if (gathered.status !== OK) return undefined;
    this.#around.count('hit', gathered.hits);
    this.#around.count('absent', gathered.absences);
    this.#around.count('miss', gathered.misses);
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
    this.#around.refresh(namespace, stale);
  }
}
