import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { Sql } from 'postgres';
import type { Events, Metrics } from '../observe.ts';
import { drain } from './drain.ts';
import { type FeedMessage, split } from './messages.ts';
import type { RedisWriter } from './redis-writer.ts';

/** Both in base 36. */
export interface Generation {
  database: string;
  generation: string;
}

/** Advisory lock of the active invalidator; the one of the migrations is another. */
const LOCK = 0x686f74656d;
/** On this channel the active invalidator speaks to every instance. */
export const FEED_CHANNEL = 'hotel_api_feed';
/** Every message is also a sign of life; without changes one goes out this often. */
const HEARTBEAT_MS = 500;
/** The doorbell may be lost: the queue is looked at this often anyway. */
const POLL_MS = 250;
/** How often one that is not active tries to become it. */
const STANDBY_MS = 500;

export interface InvalidatorOptions {
  /** opens a pool of one connection; `onClose` is called whenever that connection ends */
  open: (onClose: () => void) => Sql;
  /** undefined without Redis */
  redisWriter: ((database: string, term: string, lastBeat: string | null) => RedisWriter) | undefined;
  /** the last sign of life in Redis that any invalidator told of */
  lastBeat: () => string | null;
  metrics: Metrics;
  events: Events;
}

/**
 * Drains the change queue, one for all instances: whoever holds the advisory lock. What it takes off the queue
 * it writes to Redis and tells to every instance in the transaction that takes it off, so a change is told
 * exactly when it is off the queue, whatever dies in between.
 */
export class Invalidator {
  readonly #options: InvalidatorOptions;
  #stopped = false;
  #done: Promise<void> | undefined;
  #wake = Promise.withResolvers<void>();

  constructor(options: InvalidatorOptions) {
    this.#options = options;
  }

  start(): void {
    this.#done = this.#run();
  }

  /** Somebody rang: the queue is looked at without delay. */
  ring(): void {
    this.#wake.resolve();
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
        await this.#pause(200 + Math.random() * 200, false);
      }
      metrics.invalidatorActive(false);
    }
    await sql.end({ timeout: 1 });
  }

  async #lead(sql: Sql, isLost: () => boolean): Promise<void> {
    const { metrics, events, redisWriter, lastBeat } = this.#options;
    const term = randomBytes(6).toString('base64url');
    const current = await currentGeneration(sql);
    const writer = redisWriter?.(current.database, term, lastBeat());
    let count = 0;
    const [backend] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
    let { generation } = current;
    writer?.useGeneration(generation);
    let spokeAtMs = -Infinity;
    while (!this.#stopped && !isLost()) {
      const rows = await inTransaction(sql, async () => {
        const drained = await drain(sql, backend!.pid);
        const nowMs = performance.now();
        if (drained.rows === 0 && nowMs - spokeAtMs < HEARTBEAT_MS) return 0;
        spokeAtMs = nowMs;
        const doubt = await writer?.write(drained);
        if (doubt !== undefined || drained.changes.truncated.length > 0) {
          const [next] = await sql<{ g: number }[]>`select nextval('hotel_api_generations')::float8 as g`;
          generation = next!.g.toString(36);
          writer?.useGeneration(generation);
          if (writer) events.newGeneration(generation, doubt ?? 'a table was truncated');
        }
        const beat = writer?.beat ?? null;
        const payloads = split(drained.changes).map((part) => {
          const message: FeedMessage = { e: term, n: ++count, g: generation, b: beat, ...part };
          return JSON.stringify(message);
        });
        await sql`select pg_notify(${FEED_CHANNEL}, payload) from unnest(${payloads}::text[]) as payload`;
        metrics.changes('hotels', drained.changes.hotels.length);
        metrics.changes('keys', drained.changes.keys.length);
        metrics.changes('truncated', drained.changes.truncated.length);
        return drained.rows;
      });
      if (rows === 0) await this.#pause(POLL_MS, true);
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

/**
 * Runs `work` between begin and commit on the only connection of `sql`. postgres.js' own `begin` ends the process
 * when the connection is lost inside it: its rollback is then written to a socket that is gone.
 */
async function inTransaction<T>(sql: Sql, work: () => Promise<T>): Promise<T> {
  await sql`begin`;
  try {
    const result = await work();
    await sql`commit`;
    return result;
  } catch (error) {
    await sql`rollback`.catch(() => {});
    throw error;
  }
}

/** What keys in Redis begin with: the database's own number, and the generation that is in force. */
export async function currentGeneration(sql: Sql): Promise<Generation> {
  const [row] = await sql<{ start: number; last: number }[]>`
    select start_value::float8 as start, coalesce(last_value, start_value)::float8 as last
    from pg_sequences where schemaname = current_schema() and sequencename = 'hotel_api_generations'`;
  return { database: row!.start.toString(36), generation: row!.last.toString(36) };
}
