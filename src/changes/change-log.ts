import { Unavailable } from '../errors.ts';
import { encodeHotel, encodeInTurns } from '../hotels/encode.ts';
import type { Entry } from '../hotels/entry.ts';
import type { HotelRow } from '../hotels/row.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { EventLoop } from '../lib/event-loop.ts';
import type { LogPlace } from '../log/log-connection.ts';
import type { Postgres } from '../postgres/client.ts';
import { changesQuery, walkQuery } from './log-queries.ts';
import type { Token } from './token.ts';

/** Maximum number of changes of a page. */
export const MAX_CHANGES = 1000;

/** State of the log in the snapshot of a page, as the queries return it. */
export interface LogSnapshot extends LogPlace {
  history: string;
  /** changes before this position are forgotten */
  oldest: number;
  /** the day that decides about `certified` */
  day: string;
  /** ids of committed changes are still being listed: of a large transaction, or of a midnight */
  isListing: boolean;
  /** committed changes have no position yet */
  isQueued: boolean;
  /** one of them is a TRUNCATE or the like */
  isTruncated: boolean;
  /** the collection has members but does not exist */
  isOrphaned: boolean;
  /** transaction of the row with the position of the token; null: there is none */
  transactionOfToken: string | null;
  /** value of `SERVER` */
  server: string;
  /** monotonic time at which it had been received */
  readAtMs: number;
}

/** A hotel in its present state; null: gone. */
export interface Change {
  id: string;
  hotel: Entry | null;
}

/** Changes after a position. */
interface LogPage {
  state: LogSnapshot;
  /** in the order of their places, each hotel once */
  changes: (Change & LogPlace)[];
  /** changes without a position */
  queued: Change[];
  /** there are more such changes */
  isCut: boolean;
  /** place up to which the log was read; undefined: there is no row after the position */
  readTo: LogPlace | undefined;
}

type Row = { state: string } & (HotelRow | { id: null });
type ChangeRow = Row & {
  read_to: number | null;
  read_transaction: string | null;
  is_cut: boolean;
  changed_id: string | null;
  log_position: number | null;
  log_transaction: string | null;
};

/**
 * Reads pages for mirrors in PostgreSQL. Hotels, log and queue come from one snapshot. By its positions a mirror holds
 * everything that had committed when they were given out; with the queue it holds the snapshot.
 */
export class ChangeLog {
  readonly #postgres: Postgres;
  readonly #server: () => string;
  readonly #eventLoop: EventLoop;

  /**
   * Uses the server whose log is followed, which `server` returns (see `SERVER`). A replica may lack a change that another
   * one has already returned, and a copy that is not followed yet has others.
   */
  constructor(postgres: Postgres, server: () => string, eventLoop: EventLoop) {
    this.#postgres = postgres;
    this.#server = server;
    this.#eventLoop = eventLoop;
  }

  /** Reads at most `limit` changes after `position`. Throws `Unavailable`. */
  async changesAfter(
    position: number,
    limit: number,
    owner: string,
    collection: string | null,
  ): Promise<LogPage> {
    const found: Omit<LogPage, 'state'> = { changes: [], queued: [], isCut: false, readTo: undefined };
    const text = changesQuery(collection === null ? null : '$3');
    const state = await this.#read<ChangeRow>(text, [position, limit], collection, owner, (row, hotel) => {
      const { changed_id: id, log_position, log_transaction, read_to, read_transaction } = row;
      found.isCut = row.is_cut;
      if (read_to !== null) found.readTo = { position: read_to, transaction: read_transaction! };
      if (id === null) return;
      if (log_position === null) found.queued.push({ id, hotel });
      else found.changes.push({ id, hotel, position: log_position, transaction: log_transaction! });
    });
    found.changes.sort((a, b) => a.position - b.position);
    return { state, ...found };
  }

  /** Reads at most `limit` hotels with ids after `id`, in byte order. Throws `Unavailable`. */
  async hotelsAfter(
    id: string,
    limit: number,
    owner: string,
    collection: string | null,
    token?: Token,
  ): Promise<{ state: LogSnapshot; hotels: Change[] }> {
    const hotels: Change[] = [];
    const text = walkQuery(collection === null ? null : '$4', MAX_CHANGES + 1);
    const from = [token?.position ?? null, limit, id];
    const state = await this.#read<Row>(text, from, collection, owner, (row, hotel) => {
      if (row.id !== null) hotels.push({ id: row.id, hotel });
    });
    return { state, hotels };
  }

  /** Passes on the rows of a page with their hotels, in turns of the event loop. Returns the state. */
  async #read<R extends Row>(
    text: string,
    from: (number | string | null)[],
    collection: string | null,
    owner: string,
    take: (row: R, hotel: Entry | null) => void,
  ): Promise<LogSnapshot> {
    const all = collection === null ? from : [...from, collection];
    let snapshot: LogSnapshot | undefined;
    await this.#postgres.rows<R>(text, all, owner, 'changes', async (rows) => {
      const state: LogSnapshot | undefined = rows[0] && JSON.parse(rows[0].state);
      if (!state?.history || state.server !== this.#server())
        throw new Unavailable('the log is not the one that is followed', 'postgres_unavailable');
      snapshot = { ...state, readAtMs: monotonicMs() };
      const dayMs = Date.parse(state.day);
      await encodeInTurns(rows, owner, this.#eventLoop, (row) => {
        const hotel = row.id === null ? null : encodeHotel(row, state.position, dayMs);
        take(row, hotel);
        return hotel?.bytes.length ?? 0;
      });
    });
    return snapshot!;
  }
}
