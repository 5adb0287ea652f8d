import { Unavailable } from '../errors.ts';
import type { View } from '../hotels/entry.ts';
import type { Change, ChangeLog, LogState } from './change-log.ts';
import { writePage } from './page-body.ts';
import type { PositionWatch, Wait } from './position-watch.ts';
import { type Token, writeToken } from './token.ts';

/** Changes that are committed get their positions within about 30 ms; a page waits for them so long at most. */
const SETTLE_MS = 250;
/** Answers without changes that are not the last are passed over, so many at most. */
const MAX_ROUNDS = 4;

/** What a client asks for. */
export interface Wish {
  /** undefined: the beginning */
  token: Token | undefined;
  limit: number;
  waitMs: number;
  view: View;
  /** of the key; null: it sees all hotels */
  collection: string | null;
  /** the API key, by whose share queries wait */
  owner: string;
}

/** A client that waits for the answer. */
export interface Client {
  readonly over: boolean;
  whenMade(done: () => void): void;
  /** The time until now was spent waiting, as the client wished. */
  waited(): void;
}

/** A page of changes as it is sent. */
export interface Page {
  body: Buffer;
  /** where the client goes on */
  next: Token;
  /** `next` as it stands in the body */
  written: string;
}

interface Read {
  changes: Change[];
  next: Token;
  more: boolean;
}

/**
 * Answers mirrors. A client that applies the pages in order holds every hotel in its present state, as of the snapshot
 * of the last page that says there are no more: the walk by id holds those that have not changed since it began, the log
 * tells of all others, and what is committed without a position comes along.
 */
export class ChangeFeed {
  readonly #log: ChangeLog;
  readonly #watch: PositionWatch;
  /** reads under way: clients that ask for the same page share it */
  readonly #reads = new Map<string, Promise<Page & Read>>();

  constructor(log: ChangeLog, watch: PositionWatch) {
    this.#log = log;
    this.#watch = watch;
  }

  /** The page that needs no query: nothing was announced that the client lacks. Undefined: it has to be read. */
  upToDate({ token, view, collection }: Pick<Wish, 'token' | 'view' | 'collection'>): Page | undefined {
    if (!token?.isWhole || token.view !== view) return undefined;
    if (token.collection !== collection) return undefined;
    if (!this.#watch.isLast(token.history, token.position)) return undefined;
    return pageOf({ changes: [], next: token, more: false });
  }

  /**
   * The next page; 'expired': the client has to begin again. Waits for the first change where there is none yet. Throws
   * `Unavailable`.
   */
  async page(wish: Wish, client: Client): Promise<Page | 'expired'> {
    const { limit, view, collection, owner } = wish;
    const untilMs = performance.now() + wish.waitMs;
    let { token } = wish;
    if (token && token.collection !== collection) return 'expired';
    // the client's hotels are of another view: it gets them all again, and the deletions since
    if (token && token.view !== view) token = { ...token, view, walkedTo: '', isWhole: false };
    for (let round = 0; ; round++) {
      const known = token && this.upToDate({ token, view, collection });
      const page = known ?? (await this.#shared(token, limit, view, owner, collection));
      if (page === 'expired') return page;
      token = page.next;
      if (known === undefined) {
        const { changes, more } = page as Page & Read;
        if (changes.length > 0 || (more && round >= MAX_ROUNDS)) return page;
        if (more) continue;
      }
      const restMs = untilMs - performance.now();
      if (restMs <= 0 || client.over || this.#watch.isReleased) return page;
      const wait: Wait = this.#watch.laterThan(token.position, restMs);
      client.whenMade(wait.cancel);
      await wait.over;
      client.waited();
      if (client.over) return page;
    }
  }

  async #shared(
    token: Token | undefined,
    limit: number,
    view: View,
    owner: string,
    collection: string | null,
  ): Promise<(Page & Read) | 'expired'> {
    const name = `${limit} ${view} ${JSON.stringify(collection)} ${token ? writeToken(token) : ''}`;
    let read = this.#reads.get(name);
    if (!read) {
      read = this.#read(token, limit, view, owner, collection)
        .then((found) => ({ ...found, ...pageOf(found) }))
        .finally(() => this.#reads.delete(name));
      this.#reads.set(name, read);
    }
    return read.catch((error) => {
      if (error instanceof Expired) return 'expired';
      throw error;
    });
  }

  #read(
    token: Token | undefined,
    limit: number,
    view: View,
    owner: string,
    collection: string | null,
  ): Promise<Read> {
    return token?.walkedTo === null
      ? this.#readChanges(token, limit, owner)
      : this.#readHotels(token, limit, view, owner, collection);
  }

  /** A page of the walk by id. */
  async #readHotels(
    token: Token | undefined,
    limit: number,
    view: View,
    owner: string,
    collection: string | null,
  ): Promise<Read> {
    const { state, hotels } = await this.#log.hotelsAfter(
      token?.walkedTo ?? '',
      limit + 1,
      owner,
      collection,
    );
    if (token) check(token, state);
    const changes = hotels.slice(0, limit);
    const isLast = hotels.length <= limit;
    const { history, position } = token ?? state;
    const walkedTo = isLast ? null : changes.at(-1)!.id;
    // all of a single page comes from one snapshot
    const isBehind = token !== undefined && (position < state.position || state.isQueued);
    const more = !isLast || isBehind;
    return { changes, next: { history, position, view, walkedTo, collection, isWhole: !more }, more };
  }

  /** A page of the log. */
  async #readChanges(token: Token, limit: number, owner: string): Promise<Read> {
    let page = await this.#log.changesAfter(token.position, limit + 1, owner, token.collection);
    check(token, page.state);
    if (page.scanned <= limit && page.state.isQueued) {
      await this.#watch.laterThan(page.state.position, SETTLE_MS).over;
      page = await this.#log.changesAfter(token.position, limit + 1, owner, token.collection);
      check(token, page.state);
    }
    const { changes, queued, state } = page;
    if (changes.length > limit) {
      const taken = changes.slice(0, limit);
      return {
        changes: taken,
        next: { ...token, position: page.positions[limit - 1]!, isWhole: false },
        more: true,
      };
    }
    if (page.scanned > limit)
      return { changes, next: { ...token, position: page.scannedTo, isWhole: false }, more: true };
    const more = changes.length + queued.length > limit || state.isTruncated;
    const next = { ...token, position: state.position, isWhole: !more };
    return { changes: more ? changes : [...changes, ...queued], next, more };
  }
}

/** What a token stands for is no longer remembered. */
class Expired extends Error {}

function check(token: Token, state: LogState): void {
  if (token.history !== state.history || token.position < state.oldest) throw new Expired();
  // the database has gone back, and its history is about to end
  if (token.position > state.position) throw new Unavailable('the change log is behind the token');
}

function pageOf({ changes, next, more }: Read): Page {
  const written = writeToken(next);
  return { body: writePage(changes, next.view, written, more), next, written };
}
