import type { Found } from '../hotels/entry.ts';
import { queryPage } from '../hotels/id-list.ts';
import { numberOf } from '../hotels/namespace.ts';
import type { PageIndex } from '../hotels/page-index.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { Freshness } from '../log/freshness.ts';
import { hash, hashKey } from '../wasm/hashes.ts';
import { type ChangedHotels, CollectionMembers } from './collection-members.ts';
import type { CollectionRepository } from './repository.ts';

/** Pause after a load that failed or found no room. */
const LOAD_AGAIN_MS = 1_000;
/** Bytes of a collection besides its ids. */
const OVERHEAD_BYTES = 1_024;
/** Maximum number of members that the query of a request skips: each is looked up in `hotels` too, 5,000 take about 60 ms. */
const MAX_SKIP = 5_000;

/** The list of all hotels, or of a collection. */
type HotelList = Pick<PageIndex, 'cachedPage' | 'page' | 'moved'>;

interface CollectionsOptions {
  repository: CollectionRepository;
  /** bytes for the members of all collections */
  maxBytes: number;
  freshness: Pick<Freshness, 'mayServeMembers'>;
}

/**
 * Decides which hotels the keys of collections see. The members of used collections are held in memory and updated by
 * the log. While they are not known, or the log cannot be followed, PostgreSQL is queried for each request.
 */
export class Collections {
  readonly #options: CollectionsOptions;
  readonly #cached = new Map<string, CollectionMembers>();
  /** ends when all that wait are loaded, one after the other */
  #loading = Promise.resolve();
  /** for hotels of collections whose members were not known, since the start of the worker */
  queries = 0;

  constructor(options: CollectionsOptions) {
    this.#options = options;
  }

  /** Returns the members of a collection if they are known, else begins to load them. */
  members(collection: string, nowMs = monotonicMs()): CollectionMembers | undefined {
    if (!this.#options.freshness.mayServeMembers(nowMs)) return undefined;
    const held = this.#cached.get(collection);
    if (!held || (held.isDropped && nowMs >= held.retryAtMs)) {
      this.#begin(collection, nowMs);
      return undefined;
    }
    held.usedAtMs = nowMs;
    return held.isKnown ? held : undefined;
  }

  /**
   * Returns those of these hotels that are members now, for an API key. Queries PostgreSQL if the members are not known,
   * and may then reject with `Unavailable`.
   */
  membersAmong(
    collection: string,
    ids: readonly string[],
    owner: string,
  ): ReadonlySet<string> | Promise<ReadonlySet<string>> {
    const members = this.members(collection);
    if (members || ids.length === 0) return new Set(ids.filter((id) => members?.has('id', id)));
    return this.#options.repository
      .membershipOf(collection, ids, owner)
      .then((states) => new Set(states.filter(({ is_member }) => is_member).map(({ id }) => id)));
  }

  /** Returns the hotels that are members now, else null, in their order. Throws `Unavailable`. */
  async onlyMembers(collection: string, found: readonly Found[], owner: string): Promise<Found[]> {
    const among = await this.membersAmong(
      collection,
      found.flatMap((hotel) => hotel?.id ?? []),
      owner,
    );
    return found.map((hotel) => (hotel && among.has(hotel.id) ? hotel : null));
  }

  /** Returns the list of a collection; while its members are not known, its first pages are read from PostgreSQL. */
  listOf(collection: string): HotelList {
    const list = this.members(collection)?.list;
    if (list) return list;
    const source = this.#options.repository.listOf(collection);
    return {
      cachedPage: () => undefined,
      page: (offset, limit, owner) => queryPage(source, MAX_SKIP, offset, limit, owner),
      moved: () => {},
    };
  }

  /** Applies additions to and removals from a collection; `ids` null: any hotels. */
  changed(collection: string, ids: readonly string[] | null): void {
    const held = this.#cached.get(collection);
    if (!held) return;
    if (ids === null) held.drop();
    else held.changed(ids).catch(() => held.drop());
  }

  /** Applies changes of hotels. */
  hotelsChanged(changed: ChangedHotels): void {
    if (this.#cached.size === 0) return;
    // thousands of collections may be held: each id is hashed once, and all are looked up in one collection after the other
    const hashes = new Uint32Array(2 * changed.ids.length);
    for (const [i, id] of changed.ids.entries()) if (hashKey(numberOf('id'), id)) hashes.set(hash, 2 * i);
    for (const held of this.#cached.values()) held.hotelsChanged(changed, hashes);
  }

  /** Drops all members, because any may have changed. */
  forget(): void {
    for (const held of this.#cached.values()) held.drop();
    this.#cached.clear();
  }

  #begin(collection: string, nowMs: number): void {
    const held = new CollectionMembers(collection, this.#options.repository, nowMs);
    this.#cached.set(collection, held);
    this.#loading = this.#loading.then(() => this.#load(held));
  }

  async #load(held: CollectionMembers): Promise<void> {
    if (held.isDropped) return;
    const isHeld = await held.load((bytes) => this.#makeRoom(bytes, held)).catch(() => false);
    if (held.isDropped || isHeld) return;
    held.drop();
    held.retryAtMs = monotonicMs() + LOAD_AGAIN_MS;
  }

  /** Evicts the least recently used collections until these bytes are free; returns false if that is impossible. */
  #makeRoom(bytes: number, taker: CollectionMembers): boolean {
    const { maxBytes } = this.#options;
    if (bytes + OVERHEAD_BYTES > maxBytes) return false;
    let usedBytes = bytes;
    for (const held of this.#cached.values()) usedBytes += held.bytes + OVERHEAD_BYTES;
    if (usedBytes <= maxBytes) return true;
    const nowMs = monotonicMs();
    // what could not be read holds the time of its next attempt
    const others = [...this.#cached.values()].filter((held) => held !== taker && nowMs >= held.retryAtMs);
    for (const held of others.sort((a, b) => a.usedAtMs - b.usedAtMs)) {
      if (usedBytes <= maxBytes) break;
      usedBytes -= held.bytes + OVERHEAD_BYTES;
      held.drop();
      this.#cached.delete(held.id);
    }
    return true;
  }
}
