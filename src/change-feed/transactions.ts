import type { Row, Sql } from 'postgres';
import { completed } from '../postgres/connect.ts';

/**
 * Round-trip time below which a poll precedes each drain, because a poll costs a tenth of a drain. With a more
 * distant PostgreSQL, round trips count for more.
 */
const CLOSE_MS = 50;
const POLL = 'select exists(select from hotel_api_changes) as found';

/** The transactions of a term on its only connection, and the polls of the queue between them. */
export class Transactions {
  readonly #sql: Sql;
  #pollTookMs = 0;
  /** the last poll found rows in the queue */
  hasMore = false;
  /** time at which the queue was last found empty: later changes were committed after that */
  emptyAtMs = -Infinity;
  /** A distant delivery without changes leaves its transaction open; the next one commits it in its first message. */
  #isOpen = false;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** True if a poll takes long, so that each drain takes the place of one. */
  get isFar(): boolean {
    return this.#pollTookMs > CLOSE_MS;
  }

  async poll(): Promise<void> {
    const polledAtMs = performance.now();
    const [row] = completed(await this.#sql.unsafe(POLL, [], { prepare: true }));
    this.notePoll(polledAtMs, row!.found);
  }

  /** Records that a query sent at `sentAtMs` found rows in the queue, or none. */
  notePoll(sentAtMs: number, found: boolean): void {
    this.hasMore = found;
    if (found) return;
    this.#pollTookMs = performance.now() - sentAtMs;
    this.emptyAtMs = sentAtMs;
  }

  get #begin(): string {
    return this.#isOpen ? 'commit; begin' : 'begin';
  }

  /** Begins a transaction with `send`, whose statements must start with those it is given. Returns its result. */
  async begin<T>(send: (begin: string) => PromiseLike<T>): Promise<T> {
    const result = await send(this.#begin);
    this.#isOpen = true;
    return result;
  }

  /** Runs a statement in a transaction of its own. Returns the results, that of the statement second from the end. */
  run(statement: string): Promise<Row[][]> {
    return this.commit(`${this.#begin}; ${statement};`);
  }

  /**
   * Sends these statements and the commit as one message, so nothing is committed after a failure. The poll behind it
   * saves a round trip for a change that was committed meanwhile.
   */
  async commit(statements = ''): Promise<Row[][]> {
    const sentAtMs = performance.now();
    const sent = await this.#sql.unsafe(`${statements} commit; ${POLL}`).simple();
    const results = completed(sent) as unknown as Row[][];
    this.#isOpen = false;
    this.notePoll(sentAtMs, results.at(-1)![0]!.found);
    return results;
  }

  /**
   * Rolls back the transaction that `work` began if the server rejected a statement. After a lost connection there is
   * nothing to roll back, and postgres.js 3.4 never settles a statement between a connection's error and its end.
   */
  async orRollBack<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (isRejection(error)) await this.#sql`rollback`.catch(() => {});
      this.#isOpen = false;
      throw error;
    }
  }
}

/** Returns true for an error of the server, false for one of the connection. */
export function isRejection(error: unknown): error is Error {
  return (error as Error).name === 'PostgresError';
}
