import type { Sql } from 'postgres';
import { dense } from '../database.ts';
import { Unavailable } from '../errors.ts';
import { DeadlineExceeded, withDeadline } from '../lifecycle.ts';
import { Breaker } from './breaker.ts';

/** SQLSTATE classes and codes that say the server cannot be had: connection, resources, operator's intervention. */
const AWAY = /^(08|53|57P0)/;
/** Errors of postgres.js and of sockets that say the same. */
const LOST = /^(CONNECT|CONNECTION_|ECONN|EPIPE|ENOTFOUND|ETIMEDOUT|EAI_|EHOSTUNREACH|ENETUNREACH)/;
/** Failures without a success after which it is left alone. */
const FAILURES_TO_OPEN = 3;
/** statement_timeout and lock_timeout: the server is there, this query was too slow */
const TOO_SLOW = /^(57014|55P03)$/;

/**
 * PostgreSQL as the workers read it: a bounded number of queries at once, a bounded queue before it, one
 * deadline for waiting and running, one breaker. What cannot be had in time is `Unavailable`; any other
 * error of a query is thrown as it is.
 */
export class Postgres {
  readonly #open: () => Sql;
  readonly #limits: { connections: number; queueLimit: number; timeoutMs: number };
  readonly #breaker: Breaker;
  #sql: Sql;
  #running = 0;
  #lateInARow = 0;
  #answeredAtMs = -Infinity;
  readonly #waiting: (() => void)[] = [];

  constructor(
    open: () => Sql,
    limits: { connections: number; queueLimit: number; timeoutMs: number },
    onBreaker: (open: boolean, reason: string) => void,
  ) {
    this.#open = open;
    this.#limits = limits;
    this.#sql = open();
    this.#breaker = new Breaker({
      probe: () => this.#attempt((sql) => sql`select from hotels limit 1`),
      failuresToOpen: FAILURES_TO_OPEN,
      probeEveryMs: 250,
      onChange: onBreaker,
    });
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get running(): number {
    return this.#running;
  }

  get breakerOpen(): boolean {
    return this.#breaker.open;
  }

  /** Runs one query. Throws `Unavailable` at once when the breaker is open or the queue is full. */
  async query<T>(run: (sql: Sql) => PromiseLike<T>): Promise<T> {
    if (this.#breaker.open) throw new Unavailable('PostgreSQL is away');
    const askedAtMs = performance.now();
    const deadlineMs = askedAtMs + this.#limits.timeoutMs;
    if (this.#running >= this.#limits.connections) await this.#wait();
    this.#running++;
    try {
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) throw new Unavailable('the deadline passed in the queue for PostgreSQL');
      if (this.#breaker.open) throw new Unavailable('PostgreSQL is away');
      const result = await this.#attempt(run, leftMs);
      this.#breaker.succeeded();
      return result;
    } catch (error) {
      // an answer of the server, be it an error, says that it is there
      if (error instanceof Unavailable && error.cause) {
        // who said nothing to anybody for a whole deadline would say nothing to the next either
        const silent = error.cause instanceof DeadlineExceeded && this.#answeredAtMs < askedAtMs;
        this.#breaker.failed(error.message, silent ? FAILURES_TO_OPEN : 1);
      }
      throw error;
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  async close(): Promise<void> {
    this.#breaker.close();
    await this.#sql.end({ timeout: 1 });
  }

  #wait(): Promise<void> {
    if (this.#waiting.length >= this.#limits.queueLimit)
      throw new Unavailable('the queue for PostgreSQL is full');
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    return promise;
  }

  /** One attempt with a deadline of our own: postgres.js has none, and on a half-open path it would hang. */
  async #attempt<T>(run: (sql: Sql) => PromiseLike<T>, timeoutMs = this.#limits.timeoutMs): Promise<T> {
    const sql = this.#sql;
    try {
      const result = dense(await withDeadline(Promise.resolve(run(sql)), timeoutMs));
      this.#lateInARow = 0;
      this.#answeredAtMs = performance.now();
      return result;
    } catch (error) {
      const code = String((error as { code?: string }).code ?? '');
      const late = error instanceof DeadlineExceeded;
      if (late && ++this.#lateInARow >= 3 && sql === this.#sql) this.#replacePool();
      if (late || AWAY.test(code) || LOST.test(code)) {
        throw new Unavailable(`PostgreSQL: ${(error as Error).message}`, { cause: error });
      }
      if (TOO_SLOW.test(code)) throw new Unavailable(`PostgreSQL: ${(error as Error).message}`);
      throw error;
    }
  }

  /** A half-open path never says that it is dead: after three late answers in a row all its connections go. */
  #replacePool(): void {
    const old = this.#sql;
    this.#lateInARow = 0;
    this.#sql = this.#open();
    old.end({ timeout: 0 }).catch(() => {});
  }
}
