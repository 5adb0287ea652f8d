import { setTimeout as wait } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { withDeadline } from '../lib/deadline.ts';
import type { Events } from '../observability/events.ts';
import type { Metrics } from '../observability/metrics.ts';
import { completed } from '../postgres/connect.ts';
import { retryAfterMs } from '../postgres/connector.ts';
import type { ReceivedPosition } from './history.ts';
import type { FeedMessage } from './messages.ts';
import type { RedisStores } from './redis-writer.ts';
import { Term } from './term.ts';

/** Advisory lock of the active invalidator; migrations use another. */
export const INVALIDATOR_LOCK = 0x686f74656d;
/**
 * Interval of the queue's polling. A poll costs PostgreSQL 13 µs and this process 46 µs: 0.24 % of one processor, in
 * the active instance alone.
 */
const POLL_MS = 25;
/** Interval at which a standby tries to become active. */
const STANDBY_MS = 400;
/** Timeout of a try, which may open a connection: with TLS that takes eight round trips. */
const LOCK_MS = 10_000;
/** Timeout of the query whether PostgreSQL still has a session. */
const SUSPECT_MS = 1_000;

interface InvalidatorOptions {
  /** opens a pool of one connection; `onClose` is called whenever that connection ends */
  open: (onClose: () => void) => Sql;
  /** undefined without Redis */
  redis: RedisStores | undefined;
  /** the last announced write marker of any invalidator */
  lastMarker: () => string | null;
  /** the last position that this instance received */
  lastReceived: () => ReceivedPosition;
  metrics: Metrics;
  events: Events;
}

/** The pool of one connection that holds a term. It is not used after that connection has ended. */
interface LeaderConnection {
  sql: Sql;
  /** backend of the connection, once it has requested the lock; undefined after it has ended */
  backendPid: number | undefined;
  /** another pool is used from the next try on */
  isOld: boolean;
}

/**
 * Elects the one active invalidator of all instances by an advisory lock. A term ends with the connection that holds
 * the lock.
 */
export class Invalidator {
  readonly #options: InvalidatorOptions;
  readonly #stopping = new AbortController();
  #poll = false;
  #done: Promise<void> | undefined;
  #term: Term | undefined;
  #leader: LeaderConnection;

  constructor(options: InvalidatorOptions) {
    this.#options = options;
    this.#leader = this.#take();
  }

  start(): void {
    this.#done = this.#run();
  }

  /** Makes the active invalidator send a message at its next poll, with or without changes. */
  sendHeartbeat(): void {
    this.#poll = true;
  }

  received(message: FeedMessage): void {
    this.#term?.received(message);
  }

  /**
   * Checks the connection of the term after a loss of the feed's connection. PostgreSQL may have ended the session
   * and given the lock to another instance, while this one would wait minutes for a response.
   */
  async suspect(): Promise<void> {
    const leader = this.#leader;
    const pid = leader.backendPid;
    if (pid === undefined) return;
    let sql: Sql | undefined;
    try {
      sql = this.#options.open(() => {});
      const known = completed(
        await withDeadline(sql`select pid from pg_stat_activity where pid = ${pid}`, SUSPECT_MS),
      );
      if (known.length === 0 && leader.backendPid === pid) this.#end(leader);
    } catch {
      // PostgreSQL is unavailable: this is repeated after the feed has reconnected
    } finally {
      await sql?.end({ timeout: 1 });
    }
  }

  /** Uses the present address from the next connection on. A running term keeps its connection. */
  renew(): void {
    this.#leader.isOld = true;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#done;
  }

  get #stopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  async #run(): Promise<void> {
    const { redis, lastMarker, lastReceived, metrics, events } = this.#options;
    let reported = '';
    const report = (state: 'active' | 'standby' | 'lost', reason = '') => {
      if (reported !== state + reason) events.invalidator(state, reason || undefined);
      reported = state + reason;
    };
    while (!this.#stopped) {
      try {
        if (this.#leader.isOld) {
          this.#end(this.#leader);
          this.#leader = this.#take();
        }
        const leader = this.#leader;
        const row = await this.#tryLock(leader);
        leader.backendPid = row.pid;
        if (!row.active) {
          report('standby');
          await this.#pause(STANDBY_MS);
          continue;
        }
        this.#term = await Term.begin(leader.sql, redis, lastMarker(), lastReceived(), metrics, events);
        report('active');
        metrics.invalidatorActive(true);
        await this.#lead(leader, this.#term);
        if (leader.backendPid === undefined) throw new Error('the connection that held the lock ended');
      } catch (error) {
        if (!this.#stopped) report('lost', (error as Error).message);
        metrics.invalidatorActive(false);
        // its session may be the reason, and has the lock that another instance waits for. Besides, postgres.js 3.4 never
        // rejects a query whose connections end before they are ready
        this.#end(this.#leader);
        await this.#pause(retryAfterMs());
      }
    }
    metrics.invalidatorActive(false);
    await this.#leader.sql.end({ timeout: 1 });
  }

  /** Opens the pool of a term, which connects at the first query. */
  #take(): LeaderConnection {
    const sql = this.#options.open(() => this.#end(leader));
    const leader: LeaderConnection = { sql, backendPid: undefined, isOld: false };
    return leader;
  }

  /**
   * Ends a pool, also when its connection has ended. postgres.js 3.4 never settles a query that begins between the error
   * and the end of a connection, unless its pool ends.
   */
  #end(leader: LeaderConnection): void {
    leader.backendPid = undefined;
    leader.isOld = true;
    leader.sql.end({ timeout: 0 }).catch(() => {});
  }

  async #tryLock({ sql }: LeaderConnection): Promise<{ active: boolean; pid: number }> {
    const trying = sql<{ active: boolean; pid: number }[]>`
      select pg_try_advisory_lock(${INVALIDATOR_LOCK}) as active, pg_backend_pid() as pid`;
    const [row] = await withDeadline(trying, LOCK_MS);
    return row!;
  }

  async #lead(leader: LeaderConnection, term: Term): Promise<void> {
    while (!this.#stopped && leader.backendPid !== undefined) {
      const heartbeat = this.#poll;
      this.#poll = false;
      const rows = heartbeat || (await term.isDue()) ? await term.deliver(heartbeat) : 0;
      await term.keepLog();
      if (term.hasMore) continue;
      // with a distant PostgreSQL a message takes several round trips, and changes often come in series
      if (rows === 0) await term.reconcile();
      await this.#pause(POLL_MS);
    }
  }

  /** Waits for a time, or until stopped. */
  async #pause(ms: number): Promise<void> {
    await wait(ms, undefined, { signal: this.#stopping.signal }).catch(() => {});
  }
}
