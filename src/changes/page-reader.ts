import { isQueueFull, isTimeout } from '../errors.ts';
import type { View } from '../hotels/entry.ts';
import { type HotelSizes, pagesOf, sumOf } from '../hotels/hotel-sizes.ts';
import { type EventLoop, workOf } from '../lib/event-loop.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import { MAX_AGE_NOT_CURRENT_MS } from '../log/bounds.ts';
import type { LogPlace } from '../log/log-connection.ts';
import type { Change, ChangeLog, LogSnapshot } from './change-log.ts';
import type { PositionWatch } from './position-watch.ts';
import { type Token, writeToken } from './token.ts';

/** Maximum time that a page waits for positions of committed changes, which takes about 30 ms. */
export const SETTLE_MS = 250;
/** Size of hotels after which a page ends, whatever its limit: each may have 64 KiB. */
const MAX_PAGE_BYTES = 2 * 1024 * 1024;

/** Size of hotels that are read for a page: what it has no room for is read in vain. */
const MAX_READ_BYTES = 1.5 * MAX_PAGE_BYTES;

const START = '{"changes":[';
const NULL = 'null';

/** What decides a page. */
export interface PageRequest {
  /** undefined: the beginning */
  token: Token | undefined;
  limit: number;
  view: View;
  /** collection of the key; null: all hotels */
  collection: string | null;
  /** the API key, by whose share queries wait */
  owner: string;
}

/** Changes as they were read, before they are a page. */
interface ReadChanges {
  changes: Change[];
  /** token of the next page */
  next: Token;
  more: boolean;
  /** monotonic time at which the last of them had been received */
  readAtMs: number;
}

/** A page of changes as it is sent. */
export interface ChangesPage extends ReadChanges {
  body: Buffer;
  /** `next` as it is in the body */
  written: string;
  /** ids of the hotels in the body */
  ids: readonly string[];
}

/**
 * Reads pages of changes. The walk by id returns unchanged hotels, the log the others, and committed changes without a position
 * are added.
 */
export class PageReader {
  readonly #log: ChangeLog;
  readonly #watch: PositionWatch;
  readonly #eventLoop: EventLoop;
  /** clients that request the same page share its read */
  readonly #reads = new SingleFlight<ChangesPage>(MAX_AGE_NOT_CURRENT_MS, isQueueFull);
  readonly #sizes: HotelSizes;

  constructor(log: ChangeLog, watch: PositionWatch, eventLoop: EventLoop, sizes: HotelSizes) {
    this.#sizes = sizes;
    this.#log = log;
    this.#watch = watch;
    this.#eventLoop = eventLoop;
  }

  /**
   * Returns the page that follows a token, for a request that arrived at this monotonic time; 'expired': the token is no longer
   * remembered. An earlier read might show less than the pages that the client has: what has no position yet is in them
   * too. Throws `Unavailable`.
   */
  async read(request: PageRequest, arrivedAtMs: number): Promise<ChangesPage | 'expired'> {
    const { token, limit, view, collection, owner } = request;
    const name = `${limit} ${view} ${JSON.stringify(collection)} ${token ? writeToken(token) : ''}`;
    return this.#reads
      .run(name, owner, () => this.#read(request), arrivedAtMs)
      .catch((error) => {
        if (error instanceof Expired) return 'expired';
        throw error;
      });
  }

  async #read(request: PageRequest): Promise<ChangesPage> {
    const { token, owner } = request;
    const limit = Math.min(request.limit, this.#sizes.atOnce(pagesOf(owner), MAX_READ_BYTES));
    const found = await (token?.walkedTo === null
      ? this.#readChanges(token, limit, owner)
      : this.#readHotels({ ...request, limit })
    ).catch((error) => {
      if (isTimeout(error)) this.#sizes.wasTooMuch(pagesOf(owner));
      throw error;
    });
    const hotels = found.changes.flatMap(({ hotel }) => hotel ?? []);
    this.#sizes.note(pagesOf(owner), ...sumOf(hotels));
    const bytes = hotels.reduce((sum, hotel) => sum + hotel.bodyLength(found.next.view), 0);
    return this.#eventLoop.run(owner, workOf(bytes), () => pageOf(found));
  }

  /** Returns a page of the walk by id. */
  async #readHotels({ token, limit, view, owner, collection }: PageRequest): Promise<ReadChanges> {
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
    return { changes, next, more, readAtMs: state.readAtMs };
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
      readAtMs: state.readAtMs,
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

/** Assembles a page. */
export function pageOf(read: ReadChanges): ChangesPage {
  const { changes, next, more } = read;
  const written = writeToken(next);
  const ids = changes.filter(({ hotel }) => hotel !== null).map(({ id }) => id);
  return { ...read, body: writePage(changes, next.view, written, more), written, ids };
}

/** Assembles the JSON of a page, in memory of its own. */
function writePage(changes: Change[], view: View, next: string, more: boolean): Buffer {
  const end = `],"next":"${next}","more":${more}}`;
  // a comma precedes each but the first
  const heads = changes.map(({ id }, i) => `${i === 0 ? '' : ','}{"id":${JSON.stringify(id)},"hotel":`);
  let length = START.length + end.length;
  for (const [i, { hotel }] of changes.entries())
    length += Buffer.byteLength(heads[i]!) + (hotel?.bodyLength(view) ?? NULL.length) + 1;
  const body = Buffer.allocUnsafe(length);
  let at = body.write(START, 0, 'latin1');
  for (const [i, { hotel }] of changes.entries()) {
    at += body.write(heads[i]!, at);
    at = hotel ? hotel.copyBody(view, body, at) : at + body.write(NULL, at, 'latin1');
    at += body.write('}', at, 'latin1');
  }
  body.write(end, at, 'latin1');
  return body;
}
