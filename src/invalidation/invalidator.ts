import { setTimeout as wait } from 'node:timers/promises';
import type { Sql } from 'postgres';
import type { Events } from '../observe/events.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { FeedMessage } from './messages.ts';
import type { RedisAccess } from './redis-writer.ts';
import { Term } from './term.ts';

/** Advisory lock of the active invalidator; the one of the migrations is another. */
const LOCK = 0x686f74656d;
/** The doorbell may be lost: the queue is looked at this often anyway. */
const POLL_MS = 250;
/** How often one that is not active tries to become it. */
const STANDBY_MS = 400;

export interface InvalidatorOptions {
  /** opens a pool of one connection; `onClose` is called whenever that connection ends */
  open: (onClose: () => void) => Sql;
  /** undefined without Redis */
  redis: RedisAccess | undefined;
  /** the last sign of life in Redis that any invalidator told of */
  lastBeat: () => string | null;
  metrics: Metrics;
  events: Events;
}

/**
 * Elects the active invalidator, one for all instances: whoever holds the advisory lock. Its term ends with the
 * connection that holds the lock.
 */
export class Invalidator {
  readonly #options: InvalidatorOptions;
  #stopped = false;
  #speak = false;
  #rung = false;
  #done: Promise<void> | undefined;
  #term: Term | undefined;
  #wake = Promise.withResolvers<void>();

  constructor(options: InvalidatorOptions) {
    this.#options = options;
  }

  start(): void {
    this.#done = this.#run();
  }

  /** Somebody rang: the queue is looked at without delay; and where `speak`, a message follows in any case. */
  ring(speak = false): void {
    this.#speak ||= speak;
    this.#rung = true;
    this.#wake.resolve();
  }

  /** This instance has heard a message of some term. */
  heard(message: FeedMessage): void {
    this.#term?.heard(message);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.ring();
    await this.#done;
  }

  async #run(): Promise<void> {
    const { events, metrics, open } = this.#options;
    let lost = false;
    const sql = open(() => {
      lost = true;
      this.ring();
    });
    let standby = false;
    while (!this.#stopped) {
      try {
        lost = false;
        const [row] = await sql<{ active: boolean }[]>`select pg_try_advisory_lock(${LOCK}) as active`;
        if (!row!.active) {
          if (!standby) events.invalidator('standby');
          standby = true;
          await this.#pause(STANDBY_MS, false);
          continue;
        }
        standby = false;
        events.invalidator('active');
        metrics.invalidatorActive(true);
        await this.#lead(sql, () => lost);
        if (lost) throw new Error('the connection that held the lock ended');
      } catch (error) {
        if (!this.#stopped) events.invalidator('lost', (error as Error).message);
        metrics.invalidatorActive(false);
        await this.#pause(200 + Math.random() * 200, false);
      }
    }
    metrics.invalidatorActive(false);
    await sql.end({ timeout: 1 });
  }

  async #lead(sql: Sql, isLost: () => boolean): Promise<void> {
    const { redis, lastBeat, metrics, events } = this.#options;
    const term = await Term.begin(sql, redis, lastBeat(), metrics, events);
    this.#term = term;
    while (!this.#stopped && !isLost()) {
      const speak = this.#speak;
      this.#speak = false;
      this.#rung = false;
      const rows = await term.deliver(speak);
      if (rows > 0 || this.#rung) continue;
      await term.reconcile();
      await this.#pause(POLL_MS, true);
    }
  }

  /** Waits for a time, or where `forBell` until somebody rings; less when stopped. */
  async #pause(ms: number, forBell: boolean): Promise<void> {
    const waiting = new AbortController();
    const timer = wait(ms, undefined, { signal: waiting.signal }).catch(() => {});
    do {
      await Promise.race([timer.then(() => waiting.abort()), this.#wake.promise]);
      this.#wake = Promise.withResolvers();
    } while (!forBell && !this.#stopped && !waiting.signal.aborted);
    waiting.abort();
  }
}
