import type { Namespace } from '../hotels/namespace.ts';
import { PageIndex } from '../hotels/page-index.ts';
import { nextIteration } from '../lib/clock.ts';
import type { LogRow } from '../log/log-connection.ts';
import { IdSet } from './id-set.ts';
import type { CollectionRepository, Membership } from './repository.ts';

/** Maximum bytes for page ids of one collection. */
const MAX_LIST_BYTES = 512 * 1024;
/** Bytes of the longest page id. */
const PAGE_ID_BYTES = 600;
/** Hotel id, channel id and registry id. */
const IDS_PER_MEMBER = 3;
/** Members per query: 5 ms of the event loop. */
const MEMBERS_PER_QUERY = 2_000;
const CHANGED_PER_QUERY = 1_000;
/** Number of pending changes above which the whole collection is reloaded. */
const MAX_CHANGED = 10_000;

/** Hotels that have changed, with the ids that they have now. `moves`: they were inserted, deleted or renamed. */
export type ChangedHotels = Pick<LogRow, 'ids' | 'channelIds' | 'registryIds' | 'moves'>;

/**
 * Holds all ids of the hotels of one collection in memory, read from PostgreSQL in pieces. What is not among them is not
 * looked up, so hotels outside cannot be told from hotels that do not exist. Hotels that come in or go out are looked up
 * again; until then the members count as unknown.
 */
export class CollectionMembers {
  readonly id: string;
  readonly #repository: CollectionRepository;
  /**
   * ids by which a member is found, by the log as applied. It may have ids that a member has lost: a hotel found by one is
   * shown only if its own id is here
   */
  #ids: IdSet | undefined;
  /** changed hotels that are to be looked up, and those that are being looked up */
  readonly #changed = new Set<string>();
  #queried: ReadonlySet<string> = new Set();
  /** true: it is outdated or evicted, or could not be read */
  isDropped = false;
  /** time of the next attempt if it could not be read */
  retryAtMs = -Infinity;
  /** list of its hotels, from the beginning of its load; it lacks changes while `isKnown` is false */
  list: PageIndex | undefined;
  #reserved = 0;
  usedAtMs: number;

  constructor(id: string, repository: CollectionRepository, nowMs: number) {
    this.id = id;
    this.#repository = repository;
    this.usedAtMs = nowMs;
  }

  /** Returns true if the members are known, as far as the log is applied. */
  get isKnown(): boolean {
    return this.#ids !== undefined && this.#changed.size === 0 && this.#queried.size === 0;
  }

  /** Returns false for a key that finds no member. A hotel with this id, if there is one, is a member. */
  has(namespace: Namespace, key: string): boolean {
    return this.#ids?.has(namespace, key) ?? false;
  }

  /** The same for a key by both halves of its hash, each a u32. */
  hasHash(low: number, high: number): boolean {
    return this.#ids?.hasHash(low, high) ?? false;
  }

  /** Bytes of its ids, and those that its page ids may take. */
  get bytes(): number {
    return Math.max(this.#reserved, (this.#ids?.bytes ?? 0) + (this.list?.maxBytes ?? 0));
  }

  /** Ends all work on the collection. */
  drop(): void {
    this.isDropped = true;
    this.#changed.clear();
    this.#ids = undefined;
    // no change reaches it any more, and a page may still wait for it
    this.list?.forget();
    this.list = undefined;
    this.#reserved = 0;
  }

  /** Reads all members. `reserve`: whether these bytes may be used. Returns false if not. Throws `Unavailable`. */
  async load(reserve: (bytes: number) => boolean): Promise<boolean> {
    const count = await this.#repository.count(this.id);
    if (this.isDropped) return true;
    const listBytes = Math.min(MAX_LIST_BYTES, PAGE_ID_BYTES * (count + 1));
    const bytes = IdSet.bytesFor(IDS_PER_MEMBER * count) + listBytes;
    if (!reserve(bytes)) return false;
    this.#reserved = bytes;
    this.list = new PageIndex(this.#repository.listOf(this.id), listBytes);
    const ids = new IdSet(IDS_PER_MEMBER * count);
    for (let mark = ''; ; ) {
      const piece = await this.#repository.membersAfter(this.id, mark, MEMBERS_PER_QUERY);
      if (this.isDropped) return true;
      for (const member of piece) apply(ids, member);
      if (piece.length < MEMBERS_PER_QUERY) break;
      mark = piece.at(-1)!.id;
      await nextIteration();
    }
    this.#ids = ids;
    await this.#lookUpChanged();
    return true;
  }

  /**
   * Looks up these hotels, which may have come in or gone out, or have other ids than the set says. Rejects with
   * `Unavailable`.
   */
  async changed(ids: readonly string[]): Promise<void> {
    if (!this.list) return;
    for (const id of ids) {
      this.list?.moved(id);
      this.#noteChange(id);
    }
    await this.#lookUpChanged();
  }

  /** Applies changes of hotels. `hashes`: both halves of the hash of each id, as of `hasHash`. */
  hotelsChanged({ ids, channelIds, registryIds, moves }: ChangedHotels, hashes: Uint32Array): void {
    // before the load no query is in flight
    if (!this.list) return;
    for (let i = 0; i < ids.length; i++) {
      const isMember = this.hasHash(hashes[2 * i]!, hashes[2 * i + 1]!);
      if (this.isKnown) {
        if (!isMember) continue;
        addIds(this.#ids!, channelIds[i] ?? null, registryIds[i] ?? null);
      }
      // a query in flight may have seen the hotel before the change
      else if (!this.#ids || isMember || this.#changed.has(ids[i]!) || this.#queried.has(ids[i]!))
        this.#noteChange(ids[i]!);
      if (moves) this.list?.moved(ids[i]!);
    }
  }

  #noteChange(id: string): void {
    this.#changed.add(id);
    if (this.#changed.size > MAX_CHANGED) this.drop();
  }

  async #lookUpChanged(): Promise<void> {
    // changed hotels wait until all members are read
    if (this.#queried.size > 0 || !this.#ids) return;
    while (this.#changed.size > 0 && this.#ids) {
      const ids = [...this.#changed].slice(0, CHANGED_PER_QUERY);
      this.#queried = new Set(ids);
      for (const id of ids) this.#changed.delete(id);
      // those that change again meanwhile are looked up again
      for (const member of await this.#repository.membershipOf(this.id, ids))
        if (this.#ids) apply(this.#ids, member);
    }
    this.#queried = new Set();
  }
}

function apply(ids: IdSet, { id, channel_id, registry_id, is_member }: Membership): void {
  if (is_member) {
    ids.add('id', id);
    addIds(ids, channel_id, registry_id);
    return;
  }
  ids.delete('id', id);
  if (channel_id !== null) ids.delete('channel', channel_id);
  if (registry_id !== null) ids.delete('registry', registry_id);
}

function addIds(ids: IdSet, channelId: string | null, registryId: string | null): void {
  if (channelId !== null) ids.add('channel', channelId);
  if (registryId !== null) ids.add('registry', registryId);
}
