import { isQueueFull, isTimeout, Unavailable } from '../errors.ts';
import { encodeHotel, encodeInTurns } from '../hotels/encode.ts';
import type { Entry, View } from '../hotels/entry.ts';
import { type HotelSizes, pagesOf, sumOf } from '../hotels/hotel-sizes.ts';
import type { HotelRow } from '../hotels/row.ts';
import { monotonicMs } from '../lib/clock.ts';
import { type EventLoop, workOf } from '../lib/event-loop.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import { MAX_AGE_NOT_CURRENT_MS } from '../log/freshness.ts';
import type { LogCursor } from '../log/log-connection.ts';
import type { Postgres } from '../postgres/client.ts';
import { changesQuery, walkQuery } from './log-queries.ts';
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

/** A hotel in its present state; null: gone. */
interface Change {
  id: string;
  hotel: Entry | null;
  /** undefined: it has no position yet, or comes from the walk by id */
  cursor?: LogCursor | undefined;
}

/** State of the log in the snapshot of a page, and its changes. */
interface Snapshot extends LogCursor {
  history: string;
  /** changes before this position are forgotten */
  oldest: number;
  /** the day that decides about `certified` */
  day: string;
  /** ids of committed changes are still being listed: of a large transaction, or of a midnight */
  isListing: boolean;
  /** committed changes have no position yet */
  isQueued: boolean;
  /** the collection has members but does not exist */
  isOrphaned: boolean;
  /** transaction of the row with the position of the token; null: there is none */
  transactionOfToken: string | null;
  /** value of `SERVER` */
  server: string;
  /** not of the walk: there are more changes without a position, or one of them is a TRUNCATE or the like */
  isCut: boolean;
  /** not of the walk: cursor up to which the log was read; null: there is no row after the position */
  readTo: LogCursor | null;
  changes: Change[];
  /** monotonic time at which it had been received */
  readAtMs: number;
}

/** Row of a page. Without changes there is one, whose `changed_id` is null. */
type Row = { state: string; changed_id: string | null } & (HotelRow | { id: null }) & {
    log_position?: number | null;
    log_transaction?: string | null;
  };

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
 * Reads pages of changes in PostgreSQL. The walk by id returns unchanged hotels, the log the others, and committed changes without a
 * position are added. Hotels, log and queue of a page come from one snapshot. By its positions a mirror holds everything that had
 * committed when they were given out; with the queue it holds the snapshot.
 */
export class PageReader {
  readonly #postgres: Postgres;
  readonly #server: () => string;
  readonly #watch: PositionWatch;
  readonly #eventLoop: EventLoop;
  /** clients that request the same page share its read */
  readonly #reads = new SingleFlight<ChangesPage | 'expired'>(MAX_AGE_NOT_CURRENT_MS, isQueueFull);
  readonly #sizes: HotelSizes;

  /**
   * Uses the server whose log is followed, which `server` returns (see `SERVER`). A replica may lack a change that another
   * one has already returned, and a copy that is not followed yet has others.
   */
  constructor(
    postgres: Postgres,
    server: () => string,
    watch: PositionWatch,
    eventLoop: EventLoop,
    sizes: HotelSizes,
  ) {
    this.#postgres = postgres;
    this.#server = server;
    this.#watch = watch;
    this.#eventLoop = eventLoop;
    this.#sizes = sizes;
  }

  /**
   * Returns the page that follows a token, for a request that arrived at this monotonic time; 'expired': the token is no longer
   * remembered. An earlier read might show less than the pages that the client has: what has no position yet is in them
   * too. Throws `Unavailable`.
   */
  async read(request: PageRequest, arrivedAtMs: number): Promise<ChangesPage | 'expired'> {
    const { token, limit, view, collection, owner } = request;
    const name = `${limit} ${view} ${JSON.stringify(collection)} ${token ? writeToken(token) : ''}`;
    return this.#reads.run(name, owner, () => this.#read(request), arrivedAtMs);
  }

  async #read(request: PageRequest): Promise<ChangesPage | 'expired'> {
    const { token, owner } = request;
    const limit = Math.min(request.limit, this.#sizes.atOnce(pagesOf(owner), MAX_READ_BYTES));
    const found = await (token?.walkedTo === null
      ? this.#readChanges(token, limit, owner)
      : this.#readHotels({ ...request, limit })
    ).catch((error) => {
      if (error instanceof Expired) return 'expired' as const;
      if (isTimeout(error)) this.#sizes.wasTooMuch(pagesOf(owner));
      throw error;
    });
    if (found === 'expired') return found;
    const hotels = found.changes.flatMap(({ hotel }) => hotel ?? []);
    this.#sizes.note(pagesOf(owner), ...sumOf(hotels));
    const bytes = hotels.reduce((sum, hotel) => sum + hotel.bodyLength(found.next.view), 0);
    return this.#eventLoop.run(owner, workOf(bytes), () => pageOf(found));
  }

  /** Returns a page of the walk by id. */
  async #readHotels({ token, limit, view, owner, collection }: PageRequest): Promise<ReadChanges> {
    const from = [token?.position ?? null, limit + 1, token?.walkedTo ?? ''];
    const text = walkQuery(collection === null ? null : '$4');
    const found = await this.#query(text, from, token, collection, owner);
    const changes = found.changes.slice(0, fitting(found.changes, limit));
    const isLast = found.changes.length === changes.length;
    const { history, position, transaction, isOrphaned } = token ?? found;
    const walkedTo = isLast ? null : changes.at(-1)!.id;
    // all hotels of a single page come from one snapshot
    const isBehind = token !== undefined && (position < found.position || found.isQueued || found.isListing);
    const more = !isLast || isBehind;
    const next = { history, position, transaction, view, walkedTo, collection, isOrphaned, isWhole: !more };
    return { changes, next, more, readAtMs: found.readAtMs };
  }

  async #readChanges(token: Token, limit: number, owner: string): Promise<ReadChanges> {
    const { collection } = token;
    const text = changesQuery(collection === null ? null : '$3');
    const read = async () => {
      const found = await this.#query(text, [token.position, limit + 1], token, collection, owner);
      // no position is left out, except in a log that was restored in part
      if (!found.readTo && token.position < found.position) throw new Expired();
      const sequenced = found.changes.filter(({ cursor }) => cursor);
      sequenced.sort((a, b) => a.cursor!.position - b.cursor!.position);
      const changes = sequenced.slice(0, fitting(sequenced, limit));
      const isFull = sequenced.length > changes.length;
      const readTo = isFull ? changes.at(-1)!.cursor! : (found.readTo ?? found);
      const queued = found.changes.filter(({ cursor }) => !cursor);
      return { ...found, changes, queued, readTo, reachesEnd: !isFull && readTo.position === found.position };
    };
    let page = await read();
    const { isQueued, isListing, position } = page;
    if (page.reachesEnd && (isQueued || (isListing && page.changes.length === 0))) {
      await this.#watch.laterThan(position, SETTLE_MS).over;
      page = await read();
    }
    const { changes, readTo, readAtMs } = page;
    const all = [...changes, ...page.queued];
    const isWhole = page.reachesEnd && !page.isCut && all.length === fitting(all, limit) && !page.isListing;
    const next = { ...token, position: readTo.position, transaction: readTo.transaction, isWhole };
    return { changes: removalsFirst(isWhole ? all : changes), next, more: !isWhole, readAtMs };
  }

  /** Returns the snapshot of a query, with its hotels encoded in turns of the owner. `collection` is its last parameter. */
  async #query(
    text: string,
    from: (number | string | null)[],
    token: Token | undefined,
    collection: string | null,
    owner: string,
  ): Promise<Snapshot> {
    let snapshot: Snapshot | undefined;
    const parameters = collection === null ? from : [...from, collection];
    await this.#postgres.rows<Row>(text, parameters, owner, 'changes', async (rows) => {
      const state: Snapshot | undefined = rows[0] && JSON.parse(rows[0].state);
      if (!state?.history || state.server !== this.#server())
        throw new Unavailable('the log is not the one that is followed', 'postgres_unavailable');
      if (token) check(token, state);
      const changes: Change[] = [];
      snapshot = { ...state, changes, readAtMs: monotonicMs() };
      const dayMs = Date.parse(state.day);
      await encodeInTurns(rows, owner, this.#eventLoop, (row) => {
        const { changed_id: id, log_position: position, log_transaction: transaction } = row;
        const hotel = row.id === null ? null : encodeHotel(row, state.position, dayMs);
        const cursor = typeof position === 'number' ? { position, transaction: transaction! } : undefined;
        if (id !== null) changes.push({ id, hotel, cursor });
        return hotel?.bytes.length ?? 0;
      });
    });
    return snapshot!;
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

function check(token: Token, state: Snapshot): void {
  if (token.history !== state.history || token.position < state.oldest) throw new Expired();
  // or the database has gone back to a state before the token
  if (token.isOrphaned !== state.isOrphaned || token.transaction !== state.transactionOfToken)
    throw new Expired();
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
