import type { Sql } from 'postgres';
import { TLS_FAULT } from '../config/postgres-tls.ts';
import { Unavailable } from '../errors.ts';
import { CircuitBreaker, type OnCall } from '../lib/circuit-breaker.ts';
import { DeadlineExceeded, withDeadline } from '../lib/shutdown.ts';
import { StallTolerantDeadline } from '../lib/stall-tolerant-deadline.ts';
import { WaitQueue } from '../lib/wait-queue.ts';
import { completed } from './connect.ts';

/**
 * SQLSTATE classes and codes that say the server cannot be had: connection, login, resources, operator's intervention,
 * and a database that is renamed or closed while another is put in its place.
 */
const UNAVAILABLE_CODES = /^(08|28|53|57P0|3D000|55000)/;
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
  readonly #breaker: CircuitBreaker;
  readonly #onCall: OnCall;
  #sql: Sql;
  #running = 0;
  #consecutiveTimeouts = 0;
  #answeredAtMs = -Infinity;
  readonly #waiting = new WaitQueue<() => void>(0, 1);

  constructor(
    open: () => Sql,
    limits: { connections: number; queueLimit: number; timeoutMs: number },
    onBreaker: (open: boolean, reason: string) => void,
    onCall: OnCall = () => {},
  ) {
    this.#onCall = onCall;
    this.#open = open;
    this.#limits = limits;
    this.#sql = open();
    this.#breaker = new CircuitBreaker({
      probe: () => this.#probe(),
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

  /** True while PostgreSQL is known to be away, and for so long after. */
  wasOpenWithin(ms: number): boolean {
    return this.#breaker.wasOpenWithin(ms);
  }

  /** The change feed, which comes from PostgreSQL, has a connection again. */
  probeNow(): void {
    this.#breaker.probeNow();
  }

  /**
   * Runs one query. Throws `Unavailable` at once when the breaker is open or the queue is full. Owners whose queries wait
   * take turns; those that no owner is named for take theirs together.
   */
  async query<T>(run: (sql: Sql) => PromiseLike<T>, owner = ''): Promise<T> {
    if (this.#breaker.pendingProbe) await this.#breaker.pendingProbe;
    if (this.#breaker.open)
      throw new Unavailable('PostgreSQL is away', { rejection: 'postgres_unavailable' });
    const beganMs = performance.now();
    const mustWait = this.#running >= this.#limits.connections;
    if (mustWait && this.#isFull(owner, beganMs))
      throw new Unavailable('the queue for PostgreSQL is full', { rejection: 'postgres_queue' });
    const deadline = new StallTolerantDeadline(this.#limits.timeoutMs);
    if (mustWait) await new Promise<void>((resolve) => this.#waiting.append(owner, resolve, 1, beganMs));
    this.#running++;
    try {
      if (deadline.over || performance.now() - beganMs > this.#mostWaitMs)
        throw new Unavailable('the deadline passed in the queue for PostgreSQL', {
          rejection: 'postgres_queue',
        });
      if (this.#breaker.open)
        throw new Unavailable('PostgreSQL is away', { rejection: 'postgres_unavailable' });
      const result = await this.#attempt(run, deadline);
      this.#breaker.succeeded();
      return result;
    } catch (error) {
      // an answer of the server, be it an error, says that it is there
      if (error instanceof Unavailable && error.cause) {
        // who said nothing to anybody for a whole deadline would say nothing to the next either
        const silent = error.cause instanceof DeadlineExceeded && this.#answeredAtMs < beganMs;
        this.#breaker.failed(error.message, silent ? FAILURES_TO_OPEN : 1);
      }
      throw error;
    } finally {
      deadline.end();
      this.#running--;
      this.#waiting.shift()?.item();
      this.#waiting.measure(performance.now());
    }
  }

  /** The rows of one query, by `query`. */
  rows<Row>(text: string, parameters: unknown[], owner?: string): Promise<Row[]> {
    return this.query(
      (sql) => sql.unsafe<Row[] & object[]>(text, parameters as never[], { prepare: true }),
      owner,
    );
  }

  /** Opens all connections, or gives up after `timeoutMs`: who asks first shall not have to wait for them. */
  async connected(timeoutMs: number): Promise<void> {
    const asked = Array.from({ length: this.#limits.connections }, () => this.#sql`select`);
    await withDeadline(Promise.all(asked), timeoutMs).catch(() => {});
  }

  async close(): Promise<void> {
    this.#breaker.close();
    await this.#sql.end({ timeout: 1 });
  }

  /** Who has waited longer than this has too little time left: to be late then would be blamed on the server. */
  get #mostWaitMs(): number {
    return 0.75 * this.#limits.timeoutMs;
  }

  /** A query that would only be refused when the time is over is refused now. */
  #isFull(owner: string, nowMs: number): boolean {
    const waiting = this.#waiting;
    const { queueLimit } = this.#limits;
    // past the limit an owner below its share may still wait, but not without end where there are many
    return (
      waiting.sizeBefore(owner) >= queueLimit ||
      waiting.length >= 2 * queueLimit ||
      waiting.isFull(owner, this.#mostWaitMs, nowMs)
    );
  }

  async #probe(): Promise<void> {
    const deadline = new StallTolerantDeadline(this.#limits.timeoutMs);
    try {
      await this.#attempt((sql) => sql`select from hotels limit 1`, deadline);
    } finally {
      deadline.end();
    }
  }

  /** One attempt with a deadline of our own: postgres.js has none, and on a half-open path it would hang. */
  async #attempt<T>(run: (sql: Sql) => PromiseLike<T>, deadline: StallTolerantDeadline): Promise<T> {
    const sql = this.#sql;
    const startedAtMs = performance.now();
    let succeeded = false;
    try {
      const result = completed(await deadline.bound(run(sql)));
      this.#consecutiveTimeouts = 0;
      succeeded = true;
      this.#answeredAtMs = performance.now();
      return result;
    } catch (error) {
      const code = String((error as { code?: string }).code ?? '');
      const late = error instanceof DeadlineExceeded;
      if (late && ++this.#consecutiveTimeouts >= 3 && sql === this.#sql) this.reconnect();
      if (late || [UNAVAILABLE_CODES, LOST, TLS_FAULT].some((codes) => codes.test(code))) {
        const rejection = late ? 'postgres_timeout' : 'postgres_unavailable';
        throw new Unavailable(`PostgreSQL: ${(error as Error).message}`, { cause: error, rejection });
      }
      if (TOO_SLOW.test(code))
        throw new Unavailable(`PostgreSQL: ${(error as Error).message}`, { rejection: 'postgres_timeout' });
      throw error;
    } finally {
      this.#onCall((performance.now() - startedAtMs) / 1000, succeeded);
    }
  }

  /**
   * Replaces all connections: after three late answers in a row, as a half-open path never says that it is dead, or where
   * they may lead to another server than they should. Queries under way may take so long still.
   */
  reconnect(finishWithinS = 0): void {
    const old = this.#sql;
    this.#consecutiveTimeouts = 0;
    try {
      this.#sql = this.#open();
    } catch {
      // a file that the address names cannot be read at this moment
      return;
    }
    old.end({ timeout: finishWithinS }).catch(() => {});
  }
}
