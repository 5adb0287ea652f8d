import { isQueueFull, isTimeout, Unavailable } from '../errors.ts';
import type { View } from '../hotels/entry.ts';
import { HotelsAtOnce } from '../hotels/hotels-at-once.ts';
import { monotonicMs, random } from '../lib/clock.ts';
import { type EventLoop, workOf } from '../lib/event-loop.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import { MAX_AGE_THEN_MS } from '../log/bounds.ts';
import type { LogPlace } from '../log/row.ts';
import { type Change, type ChangeLog, type LogSnapshot, MAX_CHANGES } from './change-log.ts';
import { writePage } from './page-body.ts';
import type { PositionWatch } from './position-watch.ts';
import { type Token, writeToken } from './token.ts';

/** Maximum time that a page waits for positions of committed changes, which takes about 30 ms. */
const SETTLE_MS = 250;
/** Maximum wait while the worker is not current: it may not know of changes then. */
const NOT_CURRENT_WAIT_MS = 500;
/**
 * Minimum pause of a client that may wait, while the queue for PostgreSQL is full. It grows with each attempt, at most
 * to this multiple.
 */
const ROOM_WAIT_MS = 250;
const LONGEST_ROOM_WAIT = 4;
/** Size of hotels after which a page ends, whatever its limit: each may have 64 KiB. */
const MAX_PAGE_BYTES = 2 * 1024 * 1024;
/** Number of hotels that may always be read at once. */
const MIN_READ = 32;
/** Maximum number of consecutive empty answers that are skipped. */
const MAX_ROUNDS = 4;

interface ChangesRequest {
  /** undefined: the beginning */
  token: Token | undefined;
  limit: number;
  waitMs: number;
  view: View;
  /** collection of the key; null: all hotels */
  collection: string | null;
  /** the API key, by whose share queries wait */
  owner: string;
  /** reads what the key may see after a wait; null: the key is revoked or has expired */
  rights: () => Promise<Pick<ChangesRequest, 'view' | 'collection'> | null>;
}

/** The part of a request that decides its page. */
type ReadRequest = Pick<ChangesRequest, 'token' | 'limit' | 'view' | 'owner' | 'collection'>;

/** A client that waits for the answer. */
interface Client {
  readonly over: boolean;
  whenMade(done: () => void): void;
  /** Excludes the time until now, which the client asked to wait, from the duration of the response. */
  waited(): void;
}

/** A page of changes as it is sent. */
export interface ChangesPage {
  body: Buffer;
  /** token of the next page */
  next: Token;
  /** `next` as it is in the body */
  written: string;
  /** number of hotels in the body */
  hotels: number;
}

interface ReadChanges {
  changes: Change[];
  next: Token;
  more: boolean;
}

/**
 * Serves mirrors. A client that applies the pages in order holds every hotel as in the snapshot of the last page with
 * `more` false. The walk by id returns unchanged hotels, the log the others, and committed changes without a position
 * are added.
 */
export class ChangesReader {
  readonly #log: ChangeLog;
  readonly #watch: PositionWatch;
  /** divides the assembling and sending of pages among its iterations */
  readonly eventLoop: EventLoop;
  /** clients that request the same page share its read */
  readonly #reads = new SingleFlight<ChangesPage & ReadChanges>(MAX_AGE_THEN_MS, isQueueFull);
  /** what a page has no room for is read in vain */
  readonly #atOnce = new HotelsAtOnce(MAX_CHANGES, 1.5 * MAX_PAGE_BYTES, MIN_READ);

  constructor(log: ChangeLog, watch: PositionWatch, eventLoop: EventLoop) {
    this.eventLoop = eventLoop;
    this.#log = log;
    this.#watch = watch;
  }

  /**
   * Returns the page without a query if no change was announced beyond the position of a client that holds one snapshot;
   * else undefined.
   */
  upToDate({
    token,
    view,
    collection,
  }: Pick<ChangesRequest, 'token' | 'view' | 'collection'>): ChangesPage | undefined {
    if (!token?.isWhole || token.view !== view || token.collection !== collection) return undefined;
    return this.#watch.isLast(token) ? pageOf({ changes: [], next: token, more: false }) : undefined;
  }

  /**
   * Returns the next page; 'expired': the client must begin again; 'unauthorized': the key lost its validity during the
   * wait. Waits for the first change if there is none, and for room in the queue for PostgreSQL. Throws `Unavailable`.
   */
  async page(request: ChangesRequest, client: Client): Promise<ChangesPage | 'expired' | 'unauthorized'> {
    const { limit, collection, owner } = request;
    let { view } = request;
    let empty: ChangesPage | undefined;
    /** consecutive reads that lacked an announced change: the database has gone back, and its history is about to end */
    let fruitless = 0;
    const arrivedMs = monotonicMs();
    const untilMs = arrivedMs + request.waitMs;
    let { token } = request;
    if (token && token.collection !== collection) return 'expired';
    // the client has seen another view: it gets all hotels again, and the deletions since
    if (token && token.view !== view) token = { ...token, view, walkedTo: '', isWhole: false };
    for (let round = 0; ; round++) {
      const from = token?.position;
      const wasBehind = from !== undefined && this.#watch.behind(from) > 0;
      const known = token && this.upToDate({ token, view, collection });
      const page =
        known ??
        (await this.#shared({ token, limit, view, owner, collection }, arrivedMs).catch((error) => {
          // many clients wake together: one that waited gets its empty page again, which was true until then
          if (empty && this.#watch.isCurrent() && error instanceof Unavailable) return empty;
          const mayWait = monotonicMs() < untilMs && !client.over && !this.#watch.isReleased;
          if (mayWait && isQueueFull(error)) return 'full';
          throw error;
        }));
      if (page === empty || page === 'expired') return page;
      if (page !== 'full') token = page.next;
      if (known === undefined && page !== 'full') {
        const { changes, more } = page as ChangesPage & ReadChanges;
        if (changes.length > 0 || (more && round >= MAX_ROUNDS)) return page;
        if (more) continue;
      }
      const restMs = untilMs - monotonicMs();
      if (page === 'full') {
        const minMs = ROOM_WAIT_MS * Math.min(round + 1, LONGEST_ROOM_WAIT);
        await this.#wait(client, Infinity, Math.min(restMs, minMs * (1 + random())));
      } else {
        if (restMs <= 0 || client.over || this.#watch.isReleased) return page;
        const { position } = page.next;
        fruitless = wasBehind && known === undefined && position === from ? fruitless + 1 : 0;
        // the first such read may have begun before the announcement
        const isSettling = fruitless > 1;
        const maxMs = isSettling ? SETTLE_MS : this.#watch.isCurrent() ? restMs : NOT_CURRENT_WAIT_MS;
        await this.#wait(client, isSettling ? Infinity : position, Math.min(restMs, maxMs));
      }
      client.waited();
      // the client has disconnected: its result is not read
      if (client.over) return page === 'full' ? 'expired' : page;
      const rights = await request.rights();
      if (rights === null) return 'unauthorized';
      if (rights.collection !== collection) return 'expired';
      if (page !== 'full') empty = page;
      if (rights.view === view) continue;
      view = rights.view;
      empty = undefined;
      token = token && { ...token, view, walkedTo: '', isWhole: false };
    }
  }

  /** Waits as `PositionWatch.laterThan` does; ends when the client disconnects. */
  #wait(client: Client, position: number, timeoutMs: number): Promise<void> {
    const wait = this.#watch.laterThan(position, timeoutMs);
    client.whenMade(wait.cancel);
    return wait.over;
  }

  /** An earlier read might show less than the pages that the client has: what has no position yet is in them too. */
  async #shared(request: ReadRequest, arrivedMs: number): Promise<(ChangesPage & ReadChanges) | 'expired'> {
    const { token, limit, view, collection, owner } = request;
    const name = `${limit} ${view} ${JSON.stringify(collection)} ${token ? writeToken(token) : ''}`;
    return this.#reads
      .run(name, owner, () => this.#read(request), arrivedMs)
      .catch((error) => {
        if (error instanceof Expired) return 'expired';
        throw error;
      });
  }

  async #read(request: ReadRequest): Promise<ChangesPage & ReadChanges> {
    const { token, owner } = request;
    const limit = Math.min(request.limit, this.#atOnce.maxFor(owner));
    const found = await (token?.walkedTo === null
      ? this.#readChanges(token, limit, owner)
      : this.#readHotels({ ...request, limit })
    ).catch((error) => {
      if (isTimeout(error)) this.#atOnce.wasTooMuch(owner);
      throw error;
    });
    const hotels = found.changes.flatMap(({ hotel }) => hotel ?? []);
    const size = hotels.reduce((sum, { bytes }) => sum + bytes.length, 0);
    this.#atOnce.note(owner, hotels.length, size);
    const bytes = hotels.reduce((sum, hotel) => sum + hotel.bodyLength(found.next.view), 0);
    return { ...found, ...(await this.eventLoop.run(owner, workOf(bytes), () => pageOf(found))) };
  }

  /** Returns a page of the walk by id. */
  async #readHotels({ token, limit, view, owner, collection }: ReadRequest): Promise<ReadChanges> {
    const walkedFrom = token?.walkedTo ?? '';
    const { state, hotels } = await this.#log.hotelsAfter(walkedFrom, limit + 1, owner, collection, token);
    if (token) check(token, state);
    const changes = hotels.slice(0, fitting(hotels, limit));
    const isLast = hotels.length === changes.length;
    const { history, position, transaction, isOrphaned } = token ?? state;
    const walkedTo = isLast ? null : changes.at(-1)!.id;
    // all hotels of a single page come from one snapshot
    const isBehind = token !== undefined && (position < state.position || state.isQueued || state.isListing);
    const more = !isLast || isBehind;
    const next = { history, position, transaction, view, walkedTo, collection, isOrphaned, isWhole: !more };
    return { changes, next, more };
  }

  async #readChanges(token: Token, limit: number, owner: string): Promise<ReadChanges> {
    const read = async () => {
      const page = await this.#log.changesAfter(token.position, limit + 1, owner, token.collection);
      check(token, page.state);
      // no position is left out, except in a log that was restored in part
      if (!page.readTo && token.position < page.state.position) throw new Expired();
      const fit = fitting(page.changes, limit);
      const isFull = page.changes.length > fit;
      const readTo: LogPlace = isFull ? page.changes[fit - 1]! : (page.readTo ?? page.state);
      return { ...page, fit, readTo, reachesEnd: !isFull && readTo.position === page.state.position };
    };
    let page = await read();
    const { isQueued, isListing, position } = page.state;
    if (page.reachesEnd && (isQueued || (isListing && page.changes.length === 0))) {
      await this.#watch.laterThan(position, SETTLE_MS).over;
      page = await read();
    }
    const { fit, queued, state, readTo } = page;
    const changes = page.changes.slice(0, fit);
    const all = [...changes, ...queued];
    const isWhole =
      page.reachesEnd &&
      !page.isCut &&
      all.length === fitting(all, limit) &&
      !state.isTruncated &&
      !state.isListing;
    const next = { ...token, position: readTo.position, transaction: readTo.transaction, isWhole };
    return {
      changes: removalsFirst(isWhole ? all : changes),
      next,
      more: !isWhole,
    };
  }
}

/** Returns how many of the changes are one page: at least one, and those that fit. */
function fitting(changes: Change[], limit: number): number {
  let bytes = 0;
  const end = changes.findIndex(({ hotel }, i) => {
    bytes += hotel?.bytes.length ?? 0;
    return i >= limit || (i > 0 && bytes > MAX_PAGE_BYTES);
  });
  return end < 0 ? changes.length : end;
}

/** A hotel that takes over the channel or registry id of one that is gone comes behind it. */
function removalsFirst(changes: Change[]): Change[] {
  return [...changes.filter(({ hotel }) => !hotel), ...changes.filter(({ hotel }) => hotel)];
}

/** Error for a token that is no longer remembered. */
class Expired extends Error {}

function check(token: Token, state: LogSnapshot): void {
  if (token.history !== state.history || token.position < state.oldest) throw new Expired();
  if (token.isOrphaned !== state.isOrphaned) throw new Expired();
  // the database has gone back to a state before the token
  if (token.transaction !== state.transactionOfToken) throw new Expired();
}

function pageOf({ changes, next, more }: ReadChanges): ChangesPage {
  const written = writeToken(next);
  const hotels = changes.filter(({ hotel }) => hotel !== null).length;
  return { body: writePage(changes, next.view, written, more), next, written, hotels };
}
