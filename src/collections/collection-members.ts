import { LETTER, type Namespace } from '../hotels/namespace.ts';
import { PageIndex } from '../hotels/page-index.ts';
import { monotonicMs, nextIteration } from '../lib/clock.ts';
import { IdSet } from './id-set.ts';
import type { CollectionRepository } from './repository.ts';

/** Maximum bytes for page ids of one collection. */
const MAX_LIST_BYTES = 512 * 1024;
/** Bytes of the longest page id. */
const PAGE_ID_BYTES = 600;
/** Ids per query: 5 ms of the event loop. */
const IDS_PER_QUERY = 5_000;
const CHANGED_PER_QUERY = 1_000;
/** Maximum number of remembered keys outside of the collection, in each of two sets: 450 KiB at most. */
const MAX_OUTSIDE = 25_000;
/** Number of pending changes above which the whole collection is reloaded. */
const MAX_CHANGED = 10_000;

/**
 * Holds the members of one collection in memory. They are read from PostgreSQL in pieces. Members that change are
 * looked up again; until then the members count as unknown. Keys by which no member was found are remembered for a while.
 */
export class CollectionMembers {
  readonly id: string;
  readonly #repository: CollectionRepository;
  #ids: IdSet | undefined;
  /** changed ids that are to be looked up, each with the number of its change */
  readonly #changed = new Map<string, number>();
  #changes = 0;
  #isLookingUp = false;
  #isDropped = false;
  #list: PageIndex | undefined;
  #reserved = 0;
  readonly #outsideMs: number;
  /** keys outside, by `LETTER` and key: the current set, and the previous one */
  #outside: IdSet | undefined;
  #outsideBefore: IdSet | undefined;
  #rotateAtMs = 0;
  #change = 0;
  usedAtMs: number;

  /** `outsideMs`: maximum time for which a key outside is remembered */
  constructor(id: string, repository: CollectionRepository, nowMs: number, outsideMs: number) {
    this.id = id;
    this.#repository = repository;
    this.usedAtMs = nowMs;
    this.#outsideMs = outsideMs;
  }

  /** Returns true if the members are known, as far as the log is applied. */
  get isKnown(): boolean {
    return this.#ids !== undefined && this.#changed.size === 0;
  }

  has(id: string): boolean {
    return this.#ids?.has(id) ?? false;
  }

  /** The same for an id by both halves of its hash, each a u32. */
  hasHash(low: number, high: number): boolean {
    return this.#ids?.hasHash(low, high) ?? false;
  }

  /** Number that differs after each change of the members. */
  get change(): number {
    return this.#change;
  }

  /** Returns true if the key is known to find no hotel of the collection, whether or not another hotel has it. */
  isOutside(namespace: Namespace, key: string): boolean {
    if (namespace === 'id' && !this.has(key)) return true;
    if (!this.#outside && !this.#outsideBefore) return false;
    this.#rotateOutside();
    const name = LETTER[namespace] + key;
    return (this.#outside?.has(name) || this.#outsideBefore?.has(name)) ?? false;
  }

  /** Remembers that these keys find no hotel of the collection. */
  noteOutside(namespace: Namespace, keys: string[]): void {
    this.#rotateOutside();
    for (const key of keys) {
      this.#outside ??= new IdSet(0);
      if (this.#outside.size >= MAX_OUTSIDE) return;
      this.#outside.add(LETTER[namespace] + key);
    }
  }

  /** Applies a change of the hotel with this id, which may now have one of these keys. */
  hotelChanged(id: string, names: string[]): void {
    if (!this.#outside && !this.#outsideBefore) return;
    // a hotel outside stays outside when its keys change
    if (this.isKnown && !this.has(id)) return;
    for (const name of names) {
      this.#outside?.delete(name);
      this.#outsideBefore?.delete(name);
    }
  }

  #rotateOutside(): void {
    const nowMs = monotonicMs();
    if (nowMs < this.#rotateAtMs) return;
    const halfMs = this.#outsideMs / 2;
    this.#outsideBefore = nowMs < this.#rotateAtMs + halfMs ? this.#outside : undefined;
    this.#outside = undefined;
    this.#rotateAtMs = nowMs + halfMs;
  }

  #forgetOutside(): void {
    this.#change++;
    this.#outside = undefined;
    this.#outsideBefore = undefined;
  }

  /** Returns the list of its hotels; it lacks changes while `isKnown` is false. */
  get list(): PageIndex | undefined {
    return this.#list;
  }

  /** Bytes of its members and of the keys outside, and those that its page ids may take. */
  get bytes(): number {
    const held = Math.max(this.#reserved, (this.#ids?.bytes ?? 0) + (this.#list?.maxBytes ?? 0));
    return held + (this.#outside?.bytes ?? 0) + (this.#outsideBefore?.bytes ?? 0);
  }

  get isDropped(): boolean {
    return this.#isDropped;
  }

  /** Ends all work on the collection, because it is outdated or evicted. */
  drop(): void {
    this.#isDropped = true;
    this.#ids = undefined;
    this.#list = undefined;
    this.#forgetOutside();
  }

  /** Reads all members. `reserve`: whether these bytes may be used. Returns false if not. Throws `Unavailable`. */
  async load(reserve: (bytes: number) => boolean): Promise<boolean> {
    const count = await this.#repository.count(this.id);
    if (this.#isDropped) return true;
    const listBytes = Math.min(MAX_LIST_BYTES, PAGE_ID_BYTES * (count + 1));
    const bytes = IdSet.bytesFor(count) + listBytes;
    if (!reserve(bytes)) return false;
    this.#reserved = bytes;
    this.#list = new PageIndex(this.#repository.listOf(this.id), listBytes);
    const ids = new IdSet(count);
    for (let mark = ''; ; ) {
      const piece = await this.#repository.membersAfter(this.id, mark, IDS_PER_QUERY);
      if (this.#isDropped) return true;
      for (const id of piece) ids.add(id);
      if (piece.length < IDS_PER_QUERY) break;
      mark = piece.at(-1)!;
      await nextIteration();
    }
    this.#ids = ids;
    await this.#lookUpChanged();
    return true;
  }

  /** Applies additions and removals of these hotels. Rejects with `Unavailable` if they cannot be looked up. */
  async changed(ids: readonly string[]): Promise<void> {
    this.#forgetOutside();
    for (const id of ids) {
      this.#changed.set(id, ++this.#changes);
      this.#list?.moved(id);
    }
    if (this.#changed.size > MAX_CHANGED) this.drop();
    await this.#lookUpChanged();
  }

  /** Applies the creation or deletion of a hotel with this id. */
  moved(id: string): void {
    if (!this.isKnown || this.has(id)) this.#list?.moved(id);
  }

  async #lookUpChanged(): Promise<void> {
    // changed ids wait until all members are read
    if (this.#isLookingUp || !this.#ids) return;
    this.#isLookingUp = true;
    try {
      while (this.#changed.size > 0 && this.#ids) {
        const queried = [...this.#changed].slice(0, CHANGED_PER_QUERY);
        const ids = queried.map(([id]) => id);
        const members = new Set(await this.#repository.membersAmong(this.id, ids));
        for (const [id, change] of queried) {
          // it has changed again since the query began
          if (this.#changed.get(id) !== change) continue;
          this.#changed.delete(id);
          if (members.has(id)) this.#ids?.add(id);
          else this.#ids?.delete(id);
        }
      }
    } finally {
      this.#isLookingUp = false;
    }
  }
}
