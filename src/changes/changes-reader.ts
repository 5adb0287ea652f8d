import { isQueueFull, Unavailable } from '../errors.ts';
import { monotonicMs, random } from '../lib/clock.ts';
import type { EventLoop } from '../lib/event-loop.ts';
import { type ChangesPage, type PageReader, type PageRequest, pageOf, SETTLE_MS } from './page-reader.ts';
import type { PositionWatch } from './position-watch.ts';

/** Time for which the worker must have been current: it knows every earlier change then. */
const CURRENT_FOR_MS = 1_000;
/** Maximum wait while the worker is not current: it may not know of changes then. */
const NOT_CURRENT_WAIT_MS = 500;
/**
 * Minimum pause of a client that may wait, while the queue for PostgreSQL is full. It grows with each attempt, at most
 * to this multiple.
 */
const ROOM_WAIT_MS = 250;
const LONGEST_ROOM_WAIT = 4;
/** Number of rounds, waits included, after which an empty page with more behind it is returned instead of skipped. */
const MAX_ROUNDS = 4;

interface ChangesRequest extends PageRequest {
  waitMs: number;
  /** reads what the key may see after a wait; null: the key is revoked or has expired */
  rights: () => Promise<Pick<ChangesRequest, 'view' | 'collection'> | null>;
}

/** A client that waits for the answer. */
interface Client {
  readonly over: boolean;
  whenMade(done: () => void): void;
  /** Excludes the time until now, which the client asked to wait, from the duration of the response. */
  waited(): void;
}

/**
 * Serves mirrors. A client that applies the pages in order holds every hotel as in the snapshot of the last page with
 * `more` false.
 */
export class ChangesReader {
  readonly #pages: PageReader;
  readonly #watch: PositionWatch;
  /** divides the assembling and sending of pages among its iterations */
  readonly eventLoop: EventLoop;

  constructor(pages: PageReader, watch: PositionWatch, eventLoop: EventLoop) {
    this.#pages = pages;
    this.#watch = watch;
    this.eventLoop = eventLoop;
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
    if (!this.#watch.isLast(token)) return undefined;
    return pageOf({ changes: [], next: token, more: false, readAtMs: monotonicMs() });
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
    const arrivedAtMs = monotonicMs();
    const untilMs = arrivedAtMs + request.waitMs;
    let { token } = request;
    if (token && token.collection !== collection) return 'expired';
    for (let round = 0; ; round++) {
      // the client has seen another view: it gets all hotels again, and the deletions since
      if (token && token.view !== view) token = { ...token, view, walkedTo: '', isWhole: false };
      const from = token?.position;
      const wasBehind = from !== undefined && this.#watch.behind(from) > 0;
      const known = token && this.upToDate({ token, view, collection });
      const page =
        known ??
        (await this.#pages.read({ token, limit, view, owner, collection }, arrivedAtMs).catch((error) => {
          // many clients wake together: one that waited gets its empty page again, which was true until shortly before
          const wasTrue = () => this.#watch.freshness.isCurrentFor(CURRENT_FOR_MS);
          if (empty && error instanceof Unavailable && wasTrue()) return empty;
          const mayWait = monotonicMs() < untilMs && !client.over && !this.#watch.isReleased;
          if (mayWait && isQueueFull(error)) return 'full';
          throw error;
        }));
      if (page === empty || page === 'expired') return page;
      if (page !== 'full') {
        token = page.next;
        if (page.changes.length > 0 || (page.more && round >= MAX_ROUNDS)) return page;
        if (page.more) continue;
      }
      const restMs = untilMs - monotonicMs();
      let position = Infinity;
      let maxMs = SETTLE_MS;
      if (page === 'full') maxMs = ROOM_WAIT_MS * Math.min(round + 1, LONGEST_ROOM_WAIT) * (1 + random());
      else {
        if (restMs <= 0 || client.over || this.#watch.isReleased) return page;
        fruitless = wasBehind && known === undefined && page.next.position === from ? fruitless + 1 : 0;
        // the first such read may have begun before the announcement
        if (fruitless < 2) {
          position = page.next.position;
          maxMs = this.#watch.freshness.isCurrent() ? restMs : NOT_CURRENT_WAIT_MS;
        }
      }
      const wait = this.#watch.laterThan(position, Math.min(restMs, maxMs));
      // it ends when the client disconnects
      client.whenMade(wait.cancel);
      await wait.over;
      client.waited();
      // the client has disconnected: its result is not read
      if (client.over) return page === 'full' ? 'expired' : page;
      const rights = await request.rights();
      if (rights === null) return 'unauthorized';
      if (rights.collection !== collection) return 'expired';
      if (page !== 'full') empty = page;
      if (rights.view !== view) empty = undefined;
      view = rights.view;
    }
  }
}
