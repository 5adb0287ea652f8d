import type { Sql } from 'postgres';
import { Unavailable } from '../errors.ts';
import { CircuitBreaker, type OnCall } from '../lib/circuit-breaker.ts';
import { clearTimer, monotonicMs, setTimer, type Timer } from '../lib/clock.ts';
import { DeadlineExceeded, withDeadline } from '../lib/deadline.ts';
import type { Hold } from '../lib/turns.ts';
import { completed } from './connect.ts';
import { failureOf, hasEnded, isLockTimeout } from './failure.ts';
import { type Lane, openLanes, Queries } from './lanes.ts';

/** Query that checks whether hotels can be read. */
const PROBE = 'select from hotels limit 1';

/**
 * Number of timeouts after which the connections are replaced again. The first timeout replaces them, because they may be
 * half-open. A frozen server must not collect a new connection for each timeout.
 */
const TIMEOUTS_PER_RECONNECT = 3;
/** Time without a response after which connections are replaced when the server has become reachable. */
const QUIET_MS = 1_000;
/** Part of the deadline without a response after which the server is probed. */
const PING_AFTER = 1 / 4;
/** Number of deadlines behind that of a query after which its connection is half-open: the server has ended the query before. */
const LOST_AFTER = 4;

/** Why a request is rejected for a failure of its query. */
const REASONS = {
  outage: 'postgres_unavailable',
  unanswered: 'postgres_timeout',
  late: 'postgres_timeout',
  locked: 'postgres_locked',
} as const;

interface PostgresOptions {
  open: () => Sql;
  connections: number;
  queueLimit: number;
  timeoutMs: number;
  onBreaker: (open: boolean, reason: string) => void;
  onCall?: OnCall;
  /** called whenever the server has answered, with the time of `monotonicMs` */
  onAnswer?: ((atMs: number) => void) | undefined;
  /** called whenever a query has waited for the lock of a table in vain */
  onLocked?: (() => void) | undefined;
}

/**
 * Queries PostgreSQL for a worker: a bounded number of concurrent queries, a bounded queue, one deadline for waiting
 * and running, one circuit breaker. Queries that cannot be done in time throw `Unavailable`; other errors are thrown
 * unchanged. The breaker opens if the server does not respond at all: a late query does not count while other
 * queries, or a probe, are answered. Neither does a query of a locked table, which leaves other tables readable.
 */
export class Postgres {
  readonly #options: PostgresOptions;
  readonly #breaker: CircuitBreaker;
  #sql: Sql;
  /** consecutive timeouts on the present connections, or on those that replaced them */
  #timeouts = 0;
  #repliedAtMs = -Infinity;
  readonly #all: Queries;
  readonly #lanes: Record<Lane, Queries>;
  /** all of them, because each request reads their lengths */
  readonly #queues: readonly Queries[];
  #watching: Timer | undefined;
  #closed = false;

  constructor(options: PostgresOptions) {
    this.#options = options;
    this.#sql = options.open();
    this.#all = new Queries(options.connections);
    this.#lanes = openLanes(options.connections);
    this.#queues = [this.#all, ...Object.values(this.#lanes)];
    this.#breaker = new CircuitBreaker(() => this.#probe(), options.onBreaker);
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
    if (isQuiet) this.reconnect();
    this.#breaker.probeNow();
  }

  /**
   * Runs one query and returns its rows. Throws `Unavailable` immediately if the breaker is open or the queue is full.
   * Owners of waiting queries are served in turn; queries without an owner share one turn. The next query of the lane waits
   * for the end of `use`, until which the rows take memory. A late query takes its place until the server has ended it.
   */
  async rows<Row>(
    text: string,
    parameters: unknown[],
    owner = '',
    kind: Lane = 'load',
    use?: (rows: Row[]) => Promise<void>,
  ): Promise<Row[]> {
    if (this.#breaker.open) throw new Unavailable('PostgreSQL is unavailable', 'postgres_unavailable');
    const beganMs = monotonicMs();
    const lane = this.#lanes[kind];
    lane.requireUnlocked(lane.running);
    const { queueLimit } = this.#options;
    if ([lane, this.#all].some((queries) => queries.isFull(owner, queueLimit, this.#maxWaitMs, beganMs)))
      throw new Unavailable('the queue for PostgreSQL is full', 'postgres_queue');
    const queryAndUse = async (holdLane: Hold) => {
      const queryInTime = (hold: Hold) =>
        this.#queryInTime<Row>(text, parameters, lane, beganMs, (until) => {
          hold(until);
          holdLane(until);
        });
      const rows = await this.#all.run(owner, 1, queryInTime, beganMs);
      await use?.(rows);
      return rows;
    };
    return lane.run(owner, 1, queryAndUse, beganMs);
  }

  /** Opens all connections, or stops waiting after `timeoutMs`, so that the first queries need not wait for them. */
  async connected(timeoutMs: number): Promise<void> {
    const opening = Array.from({ length: this.#options.connections }, () => this.#sql`select`);
    await withDeadline(Promise.all(opening), timeoutMs).catch(() => {});
  }

  /** Queries the server, unless a query of the background runs, so that an outage is noticed without requests. */
  check(): void {
    if (this.#lanes.background.running > 0) return;
    // the circuit breaker counts a failure
    void this.rows(PROBE, [], '', 'background').catch(() => {});
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#breaker.stop();
    clearTimer(this.#watching);
    await this.#sql.end({ timeout: 1 });
  }

  /** Returns the wait in ms after which too little time is left: a timeout would be blamed on the server. */
  get #maxWaitMs(): number {
    return 0.75 * this.#options.timeoutMs;
  }

  async #queryInTime<Row>(
    text: string,
    parameters: unknown[],
    lane: Queries,
    beganMs: number,
    hold: Hold,
  ): Promise<Row[]> {
    try {
      if (this.#breaker.open) throw new Unavailable('PostgreSQL is unavailable', 'postgres_unavailable');
      lane.requireUnlocked(lane.running - 1);
      if (monotonicMs() - beganMs > this.#maxWaitMs)
        throw new Unavailable('the deadline passed in the queue for PostgreSQL', 'postgres_queue');
      const sql = this.#sql;
      const isShort = lane !== this.#lanes.changes;
      const attempt = () => this.#attempt<Row>(text, parameters, beganMs, hold, isShort);
      const rows = await attempt().catch((error) => {
        if (!hasEnded(error) || this.#closed) throw error;
        // the others have probably ended too, and the client would wait before it reconnects. Without a server, this fails at once
        if (sql === this.#sql) this.reconnect();
        return attempt();
      });
      lane.lockedAtMs = -Infinity;
      this.#breaker.succeeded();
      return rows;
    } catch (error) {
      if (isLockTimeout(error)) lane.lockedAtMs = monotonicMs();
      // a response, be it an error, shows that the server is available
      if (error instanceof Unavailable && error.cause) {
        // a server that answered nothing for a whole deadline would not answer the next query
        this.#breaker.failed(error.message, error.cause instanceof DeadlineExceeded);
      }
      throw error;
    }
  }

  async #probe(): Promise<void> {
    await this.#attempt(PROBE, [], monotonicMs(), () => {}).catch((error) => {
      if (!isLockTimeout(error)) throw error;
    });
  }

  /**
   * Runs one attempt until the deadline of the query: postgres.js has none, and hangs on a half-open path. A late query shows that
   * the server is silent only if it is short: a page of changes may take long.
   */
  async #attempt<Row>(
    text: string,
    parameters: unknown[],
    beganMs: number,
    hold: Hold,
    isShort = true,
  ): Promise<Row[]> {
    const sql = this.#sql;
    const startedAtMs = monotonicMs();
    const leftMs = beganMs + this.#options.timeoutMs - startedAtMs;
    this.#watch();
    let succeeded = false;
    let query: PromiseLike<Row[]> | undefined;
    try {
      query = sql.unsafe<Row[] & object[]>(text, parameters as never[], { prepare: true });
      const rows = completed<Row[]>(await withDeadline(query, leftMs));
      this.#timeouts = 0;
      succeeded = true;
      this.#noteReply();
      return rows;
    } catch (error) {
      const failure = failureOf(error);
      if (failure === 'unanswered') hold(this.#ended(sql, query!, startedAtMs));
      const isSilent = isShort && failure === 'unanswered' && this.#repliedAtMs < startedAtMs;
      if (isSilent && sql === this.#sql && this.#timeouts++ % TIMEOUTS_PER_RECONNECT === 0) this.reconnect(0);
      const isOutage = isSilent || failure === 'outage';
      if (failure === 'late' || failure === 'locked' || failure === 'rejected') this.#noteReply();
      if (failure === 'locked') this.#options.onLocked?.();
      if (failure === undefined || failure === 'rejected') throw error;
      const cause = isOutage ? { cause: error } : undefined;
      throw new Unavailable(`PostgreSQL: ${(error as Error).message}`, REASONS[failure], cause);
    } finally {
      this.#options.onCall?.((monotonicMs() - startedAtMs) / 1000, succeeded);
    }
  }

  /**
   * Resolves when a late query has ended, or could not. Then it occupies a half-open connection, and the connections are replaced
   * if the server answers others.
   */
  #ended(sql: Sql, query: PromiseLike<unknown>, startedAtMs: number): Promise<void> {
    return new Promise((resolve) => {
      const lost = setTimer(() => {
        resolve();
        const isLost = this.#repliedAtMs > startedAtMs;
        if (isLost && sql === this.#sql && !this.#closed) this.reconnect();
      }, LOST_AFTER * this.#options.timeoutMs).unref();
      const end = () => {
        clearTimer(lost);
        resolve();
      };
      query.then(end, end);
    });
  }

  #noteReply(): void {
    this.#repliedAtMs = monotonicMs();
    this.#options.onAnswer?.(this.#repliedAtMs);
  }

  /** Probes the server while queries run and none was answered recently. */
  #watch(): void {
    const afterMs = PING_AFTER * this.#options.timeoutMs;
    this.#watching ??= setTimer(async () => {
      const isQuiet = this.running > 0 && monotonicMs() - this.#repliedAtMs > afterMs;
      // after a failure the running queries decide
      if (isQuiet && !this.#breaker.open)
        await this.#sql`select`.then(completed).then(
          () => this.#noteReply(),
          () => {},
        );
      this.#watching = undefined;
      if (this.running > 0 && !this.#closed) this.#watch();
    }, afterMs).unref();
  }

  /**
   * Replaces all connections: when the server is silent, because a half-open path reports no error, or when they may lead
   * to the wrong server. Running queries may take up to this time, by default up to their deadline.
   */
  reconnect(finishWithinS = this.#options.timeoutMs / 1_000): void {
    const old = this.#sql;
    try {
      this.#sql = this.#options.open();
    } catch {
      // a file named by the address cannot be read at the moment
      return;
    }
    old.end({ timeout: finishWithinS }).catch(() => {});
  }
}
