import type { Sql } from 'postgres';
import { TLS_FAULT } from '../config/postgres-tls.ts';
import { Unavailable } from '../errors.ts';
import { CircuitBreaker, type OnCall } from '../lib/circuit-breaker.ts';
import { clearTimer, monotonicMs, setTimer, type Timer } from '../lib/clock.ts';
import { Deadline, DeadlineExceeded, withDeadline } from '../lib/deadline.ts';
import { WaitQueue } from '../lib/wait-queue.ts';
import { completed, withoutHoles } from './connect.ts';

/**
 * SQLSTATE classes and codes of an unavailable server: connection, login, resources, operator intervention, and a
 * database that is renamed or closed during its replacement.
 */
const UNAVAILABLE_CODES = /^(08|28|53|57P0|3D000|55000)/;
/** Errors of postgres.js and of sockets with the same meaning. */
const LOST = /^(CONNECT|CONNECTION_|ECONN|EPIPE|ENOTFOUND|ETIMEDOUT|EAI_|EHOSTUNREACH|ENETUNREACH)/;
/**
 * Errors of a connection that ended while a query used it, or before it noticed. They say nothing about the server: it may
 * have restarted while this process was stopped.
 */
const ENDED = /^(CONNECTION_(CLOSED|DESTROYED)|ECONNRESET|EPIPE|57P01)$/;
/** Consecutive failures that open the circuit breaker. */
const FAILURES_TO_OPEN = 3;
/** statement_timeout: the server is available, the query was too slow */
const TOO_SLOW = '57014';
/** lock_timeout: another session has locked a table */
const LOCKED = '55P03';
/** Time for which a table counts as locked after a query has waited for it in vain. */
const LOCKED_MS = 1_000;

/** Query that checks whether hotels can be read. */
const PROBE = (sql: Sql) => sql`select from hotels limit 1`;

/**
 * Purposes of queries: hotels; keys; members of collections; pages of the list; pages of changes; background work. The
 * queries of a lane read the same tables.
 */
export type Lane = 'load' | 'keys' | 'members' | 'list' | 'changes' | 'background';
/**
 * Probes in vain per replacement of the connections. The first replaces half-open connections; a frozen server must not
 * collect a new connection for each.
 */
const PROBES_PER_RECONNECT = 3;
/** Time without a response after which connections are replaced when the server has become reachable. */
const QUIET_MS = 1_000;
/** Part of the deadline without a response after which the server is probed. */
const PING_AFTER = 1 / 4;

/** Runs one query. `onPortion` must be called when a part of its result has arrived. */
type Run<T> = (sql: Sql, onPortion: () => void) => PromiseLike<T>;

/** Queries of one lane, or of all. */
class Queries {
  readonly maxRunning: number;
  running = 0;
  readonly waiting = new WaitQueue<() => void>(0, 1);
  /** when a query last waited for the lock of a table in vain, by `monotonicMs`; -Infinity: a later one was answered */
  lockedMs = -Infinity;

  constructor(maxRunning: number) {
    this.maxRunning = maxRunning;
  }

  get mustWait(): boolean {
    return this.running >= this.maxRunning;
  }

  /**
   * Throws if a table is locked and `others` queries wait for it already. One does, so that the end of the lock is noticed;
   * more would occupy the connections that queries of other tables need. After a while without queries, all try again.
   */
  requireUnlocked(others: number): void {
    if (others > 0 && monotonicMs() - this.lockedMs < LOCKED_MS)
      throw new Unavailable('a table is locked', { rejection: 'postgres_locked' });
  }

  /** Does `work` when it is its turn. Each query hands its place over to the next one that waits. */
  async run<T>(owner: string, beganMs: number, work: () => Promise<T>): Promise<T> {
    if (this.mustWait) await new Promise<void>((resolve) => this.waiting.append(owner, resolve, 1, beganMs));
    else this.running++;
    try {
      return await work();
    } finally {
      const next = this.waiting.shift();
      if (next) next.item();
      else this.running--;
      this.waiting.measure(monotonicMs());
    }
  }
}

/**
 * Queries PostgreSQL for a worker: a bounded number of concurrent queries, a bounded queue, one deadline for waiting
 * and running, one circuit breaker. Queries that cannot be done in time throw `Unavailable`; other errors are thrown
 * unchanged. The breaker opens if the server does not respond at all: a late query does not count while other
 * queries, or a probe, are answered. Neither does a query of a locked table, which leaves other tables readable.
 */
export class Postgres {
  readonly #open: () => Sql;
  readonly #limits: { connections: number; queueLimit: number; timeoutMs: number };
  readonly #breaker: CircuitBreaker;
  readonly #onCall: OnCall;
  readonly #onAnswer: (atMs: number) => void;
  readonly #onLocked: () => void;
  #sql: Sql;
  /** consecutive timeouts on the present connections, or on those that replaced them */
  #timeouts = 0;
  #repliedAtMs = -Infinity;
  readonly #all: Queries;
  readonly #lanes: Record<Lane, Queries>;
  /** all of them, because each request reads their lengths */
  readonly #queues: readonly Queries[];
  #watching: Timer | undefined;
  #pinging = false;
  #checking = false;
  #closed = false;

  /**
   * `onAnswer`: called whenever the server has answered, with the time of `monotonicMs`. `onLocked`: called whenever a query
   * has waited for the lock of a table in vain.
   */
  constructor(
    open: () => Sql,
    limits: { connections: number; queueLimit: number; timeoutMs: number },
    onBreaker: (open: boolean, reason: string) => void,
    onCall: OnCall = () => {},
    onAnswer: (atMs: number) => void = () => {},
    onLocked: () => void = () => {},
  ) {
    this.#onCall = onCall;
    this.#onAnswer = onAnswer;
    this.#onLocked = onLocked;
    this.#open = open;
    this.#limits = limits;
    this.#sql = open();
    this.#all = new Queries(limits.connections);
    // slow queries leave connections for others
    const laneOf = (share: number) => new Queries(Math.max(1, Math.floor(share * limits.connections)));
    this.#lanes = {
      load: laneOf(1),
      keys: laneOf(1),
      members: laneOf(1),
      list: laneOf(1 / 2),
      changes: laneOf(1 / 4),
      background: laneOf(1 / 4),
    };
    this.#queues = [this.#all, ...Object.values(this.#lanes)];
    this.#breaker = new CircuitBreaker({
      probe: () => this.#probe(),
      failuresToOpen: FAILURES_TO_OPEN,
      probeEveryMs: 250,
      onChange: onBreaker,
    });
  }

  get waiting(): number {
    let sum = 0;
    for (const { waiting } of this.#queues) sum += waiting.length;
    return sum;
  }

  get running(): number {
    return this.#all.running;
  }

  get breakerOpen(): boolean {
    return this.#breaker.open;
  }

  /**
   * Called when the log can be followed again, after it could not. Connections without a recent response may be half-open,
   * as the one that follows the log was.
   */
  reachable(): void {
    const isQuiet = monotonicMs() - this.#repliedAtMs > QUIET_MS;
    if (isQuiet) this.reconnect(this.#limits.timeoutMs / 1_000);
    this.#breaker.probeNow();
  }

  /**
   * Runs one query and returns its rows. Throws `Unavailable` immediately if the breaker is open or the queue is full.
   * Owners of waiting queries are served in turn; queries without an owner share one turn.
   */
  rows<Row>(text: string, parameters: unknown[], owner?: string, lane?: Lane): Promise<Row[]> {
    return this.#query(
      (sql) => sql.unsafe<Row[] & object[]>(text, parameters as never[], { prepare: true }),
      owner,
      lane,
    );
  }

  /**
   * Runs one query like `rows` and passes on its rows, at most `maxRows` at a time. PostgreSQL sends the next ones when
   * `take` has returned, so a large result never occupies an event-loop iteration. The deadline applies to each portion.
   */
  async portions<Row>(
    text: string,
    parameters: unknown[],
    maxRows: number,
    take: (rows: Row[]) => void,
    owner?: string,
    lane?: Lane,
  ): Promise<void> {
    let isOver = false;
    let hasBegun = false;
    const run: Run<unknown> = async (sql, onPortion) => {
      // a repetition would take the first rows again
      if (hasBegun) throw Object.assign(new Error('the connection was lost'), { code: 'CONNECTION_CLOSED' });
      return await sql
        .unsafe<Row[] & object[]>(text, parameters as never[], { prepare: true })
        .cursor(maxRows, (rows) => {
          // ends the query
          if (isOver) throw new Error('the deadline has passed');
          hasBegun = true;
          onPortion();
          take(withoutHoles(rows));
        });
    };
    await this.#query(run, owner, lane).finally(() => {
      isOver = true;
    });
  }

  /** Opens all connections, or stops waiting after `timeoutMs`, so that the first queries need not wait for them. */
  async connected(timeoutMs: number): Promise<void> {
    const asked = Array.from({ length: this.#limits.connections }, () => this.#sql`select`);
    await withDeadline(Promise.all(asked), timeoutMs).catch(() => {});
  }

  /** Queries the server, unless such a query runs, so that an outage is noticed without requests. */
  async check(): Promise<void> {
    if (this.#checking || this.#breaker.open) return;
    this.#checking = true;
    // the circuit breaker counts a failure
    await this.#query(PROBE, '', 'background').catch(() => {});
    this.#checking = false;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#breaker.close();
    clearTimer(this.#watching);
    await this.#sql.end({ timeout: 1 });
  }

  /** Returns the wait in ms after which too little time is left: a timeout would be blamed on the server. */
  get #maxWaitMs(): number {
    return 0.75 * this.#limits.timeoutMs;
  }

  async #query<T>(run: Run<T>, owner = '', kind: Lane = 'load'): Promise<T> {
    if (this.#breaker.pendingProbe) await this.#breaker.pendingProbe;
    if (this.#breaker.open)
      throw new Unavailable('PostgreSQL is unavailable', { rejection: 'postgres_unavailable' });
    const beganMs = monotonicMs();
    const lane = this.#lanes[kind];
    lane.requireUnlocked(lane.running);
    if (
      [lane, this.#all].some((queries) => queries.mustWait && this.#isFull(queries.waiting, owner, beganMs))
    )
      throw new Unavailable('the queue for PostgreSQL is full', { rejection: 'postgres_queue' });
    const deadline = new Deadline(this.#limits.timeoutMs);
    try {
      return await lane.run(owner, beganMs, () =>
        this.#all.run(owner, beganMs, () => this.#queryInTime(run, lane, deadline, beganMs)),
      );
    } finally {
      deadline.end();
    }
  }

  async #queryInTime<T>(run: Run<T>, lane: Queries, deadline: Deadline, beganMs: number): Promise<T> {
    try {
      if (this.#breaker.open)
        throw new Unavailable('PostgreSQL is unavailable', { rejection: 'postgres_unavailable' });
      lane.requireUnlocked(lane.running - 1);
      if (monotonicMs() - beganMs > this.#maxWaitMs)
        throw new Unavailable('the deadline passed in the queue for PostgreSQL', {
          rejection: 'postgres_queue',
        });
      const result = await this.#attemptTwice(run, deadline);
      lane.lockedMs = -Infinity;
      this.#breaker.succeeded();
      return result;
    } catch (error) {
      if (isLockTimeout(error)) lane.lockedMs = monotonicMs();
      // a response, be it an error, shows that the server is available
      if (error instanceof Unavailable && error.cause) {
        // a server that answered nothing for a whole deadline would not answer the next query
        const silent = error.cause instanceof DeadlineExceeded;
        this.#breaker.failed(error.message, silent ? FAILURES_TO_OPEN : 1);
      }
      throw error;
    }
  }

  /** Returns true if a new query would time out in the queue. */
  #isFull(waiting: WaitQueue<() => void>, owner: string, nowMs: number): boolean {
    const { queueLimit } = this.#limits;
    // beyond the limit, an owner below its share may still wait, up to a bound
    return (
      waiting.sizeBefore(owner) >= queueLimit ||
      waiting.length >= 2 * queueLimit ||
      waiting.isFull(owner, this.#maxWaitMs, nowMs)
    );
  }

  async #probe(): Promise<void> {
    const deadline = new Deadline(this.#limits.timeoutMs);
    try {
      await this.#attempt(PROBE, deadline);
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
    } finally {
      deadline.end();
    }
  }

  /** Repeats a query once, on new connections, if its connection had ended. Without a server, that fails at once. */
  async #attemptTwice<T>(run: Run<T>, deadline: Deadline): Promise<T> {
    const sql = this.#sql;
    try {
      return await this.#attempt(run, deadline);
    } catch (error) {
      const { code } = ((error as Error).cause ?? {}) as { code?: string };
      if (!ENDED.test(code ?? '') || this.#closed) throw error;
      // the others have probably ended too, and the client would wait before it reconnects
      if (sql === this.#sql) this.reconnect(this.#limits.timeoutMs / 1_000);
      return await this.#attempt(run, deadline);
    }
  }

  /** Runs one attempt with a deadline of its own: postgres.js has none, and hangs on a half-open path. */
  async #attempt<T>(run: Run<T>, deadline: Deadline): Promise<T> {
    const sql = this.#sql;
    const startedAtMs = monotonicMs();
    const onPortion = () => {
      this.#noteReply();
      deadline.restart();
    };
    this.#watch();
    let succeeded = false;
    try {
      const result = completed(await deadline.bound(run(sql, onPortion)));
      this.#timeouts = 0;
      succeeded = true;
      this.#noteReply();
      return result;
    } catch (error) {
      const {
        code = '',
        severity,
        syscall,
      } = error as { code?: string; severity?: string; syscall?: string };
      const late = error instanceof DeadlineExceeded;
      const isSilent = late && this.#repliedAtMs < startedAtMs;
      if (isSilent && sql === this.#sql && this.#timeouts++ % PROBES_PER_RECONNECT === 0) this.reconnect();
      // every failed login is fatal, and every error of a socket has a system call
      const isLost = severity === 'FATAL' || syscall !== undefined;
      const isOutage =
        isSilent || isLost || [UNAVAILABLE_CODES, LOST, TLS_FAULT].some((codes) => codes.test(code));
      const isLocked = code === LOCKED;
      const isLate = late || code === TOO_SLOW;
      // only errors of the server have a severity
      if (severity !== undefined && !isOutage) this.#noteReply();
      if (isLocked) this.#onLocked();
      if (!isOutage && !isLate && !isLocked) throw error;
      throw new Unavailable(`PostgreSQL: ${(error as Error).message}`, {
        ...(isOutage && { cause: error }),
        rejection: isLocked ? 'postgres_locked' : isLate ? 'postgres_timeout' : 'postgres_unavailable',
      });
    } finally {
      this.#onCall((monotonicMs() - startedAtMs) / 1000, succeeded);
    }
  }

  #noteReply(): void {
    this.#repliedAtMs = monotonicMs();
    this.#onAnswer(this.#repliedAtMs);
  }

  /** Probes the server while queries run and none was answered recently. */
  #watch(): void {
    this.#watching ??= setTimer(() => {
      this.#watching = undefined;
      if (this.running === 0) return;
      const isQuiet = monotonicMs() - this.#repliedAtMs > PING_AFTER * this.#limits.timeoutMs;
      if (isQuiet && !this.#pinging && !this.#breaker.open) void this.#ping();
      this.#watch();
    }, PING_AFTER * this.#limits.timeoutMs).unref();
  }

  async #ping(): Promise<void> {
    this.#pinging = true;
    // after a failure the running queries decide
    await this.#sql`select`
      .then(completed)
      .then(() => this.#noteReply())
      .catch(() => {});
    this.#pinging = false;
  }

  /**
   * Replaces all connections: when the server is silent, because a half-open path reports no error, or when they may lead
   * to the wrong server. Running queries may take up to this time.
   */
  reconnect(finishWithinS = 0): void {
    const old = this.#sql;
    try {
      this.#sql = this.#open();
    } catch {
      // a file named by the address cannot be read at the moment
      return;
    }
    old.end({ timeout: finishWithinS }).catch(() => {});
  }
}

/** Returns true if a query waited for the lock of a table in vain. */
function isLockTimeout(error: unknown): boolean {
  return error instanceof Unavailable && error.rejection === 'postgres_locked';
}
