import { setTimeout as wait } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { withDeadline } from '../lib/deadline.ts';
import type { Events } from '../observability/events.ts';
import type { Metrics } from '../observability/metrics.ts';
import { completed } from '../postgres/connect.ts';
import type { ReceivedPosition } from './history.ts';
import type { FeedMessage } from './messages.ts';
import type { RedisStores } from './redis-writer.ts';
import { Term } from './term.ts';

/** Advisory lock of the active invalidator; the one of the migrations is another. */
const LOCK = 0x686f74656d;
/**
 * How often the queue is looked at. A look costs PostgreSQL 13 us and this process 46 us: 0.24 % of one processor,
 * in the active instance alone.
 */
const POLL_MS = 25;
/** How often one that is not active tries to become it. */
const STANDBY_MS = 400;
/** How long PostgreSQL may take to say whether it still knows a session. */
const SUSPECT_MS = 1_000;

export interface InvalidatorOptions {
  /** opens a pool of one connection; `onClose` is called whenever that connection ends */
  open: (onClose: () => void) => Sql;
  /** undefined without Redis */
  redis: RedisStores | undefined;
  /** the last sign of life in Redis that any invalidator told of */
  lastMarker: () => string | null;
  /** what this instance heard last */
  lastReceived: () => ReceivedPosition;
  metrics: Metrics;
  events: Events;
}

/** The pool of one connection on which terms are held. */
interface LeaderConnection {
  sql: Sql;
  /** of the connection that was asked for the lock last, and stands as far as we know */
  backendPid: number | undefined;
}

/**
 * Elects the active invalidator, one for all instances: whoever holds the advisory lock. Its term ends with the
 * connection that holds the lock.
 */
export class Invalidator {
  readonly #options: InvalidatorOptions;
  readonly #stopping = new AbortController();
  #poll = false;
  /** the address has changed, and the pool holds the one before */
  #isRenewed = false;
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

  /** Has the active invalidator say something at its next look, whether anything changed or not. */
  speak(): void {
    this.#poll = true;
  }

  /** This instance has heard a message of some term. */
  received(message: FeedMessage): void {
    this.#term?.received(message);
  }

  /**
   * The change feed was cut. What cut it may have cut this connection too, without a word to us: PostgreSQL has ended that
   * session long ago, and another may hold the lock, while we would wait for an answer for minutes.
   */
  async suspect(): Promise<void> {
    const leader = this.#leader;
    const pid = leader.backendPid;
    if (pid === undefined) return;
    const sql = this.#options.open(() => {});
    try {
      const known = completed(
        await withDeadline(sql`select pid from pg_stat_activity where pid = ${pid}`, SUSPECT_MS),
      );
      if (known.length > 0 || leader.backendPid !== pid) return;
      this.#leader = this.#take();
      await leader.sql.end({ timeout: 0 });
    } catch {
      // PostgreSQL is away: when it is back the feed is heard anew, and this is asked again
    } finally {
      await sql.end({ timeout: 1 });
    }
  }

  /** Uses the present address from the next connection on. A term that runs keeps its connection. */
  renew(): void {
    this.#isRenewed = true;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#done;
  }

  get #stopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  async #run(): Promise<void> {
    const { events, metrics } = this.#options;
    let standby = false;
    while (!this.#stopped) {
      if (this.#isRenewed) {
        this.#isRenewed = false;
        this.#leader.sql.end({ timeout: 0 }).catch(() => {});
        this.#leader = this.#take();
      }
      const leader = this.#leader;
      try {
        const [row] = await leader.sql<{ active: boolean; pid: number }[]>`
          select pg_try_advisory_lock(${LOCK}) as active, pg_backend_pid() as pid`;
        leader.backendPid = row!.pid;
        if (!row!.active) {
          if (!standby) events.invalidator('standby');
          standby = true;
          await this.#pause(STANDBY_MS);
          continue;
        }
        standby = false;
        events.invalidator('active');
        metrics.invalidatorActive(true);
        await this.#lead(leader);
        if (leader.backendPid === undefined) throw new Error('the connection that held the lock ended');
      } catch (error) {
        if (!this.#stopped) events.invalidator('lost', (error as Error).message);
        metrics.invalidatorActive(false);
        await this.#pause(200 + Math.random() * 200);
      }
    }
    metrics.invalidatorActive(false);
    await this.#leader.sql.end({ timeout: 1 });
  }

  /** Connects when it is first asked. */
  #take(): LeaderConnection {
    const sql = this.#options.open(() => {
      leader.backendPid = undefined;
    });
    const leader: LeaderConnection = { sql, backendPid: undefined };
    return leader;
  }

  async #lead(leader: LeaderConnection): Promise<void> {
    const { redis, lastMarker, lastReceived, metrics, events } = this.#options;
    const term = await Term.begin(leader.sql, redis, lastMarker(), lastReceived(), metrics, events);
    this.#term = term;
    while (!this.#stopped && leader.backendPid !== undefined) {
      const speak = this.#poll;
      this.#poll = false;
      const rows = speak || (await term.isDue()) ? await term.deliver(speak) : 0;
      await term.keepLog();
      if (term.hasMore) continue;
      // where PostgreSQL is far away it takes several round trips, and a change is often followed by another
      if (rows === 0) await term.reconcile();
      await this.#pause(POLL_MS);
    }
  }

  /** Waits for a time; less when stopped. */
  async #pause(ms: number): Promise<void> {
    await wait(ms, undefined, { signal: this.#stopping.signal }).catch(() => {});
  }
}
