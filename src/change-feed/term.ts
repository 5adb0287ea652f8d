import { randomBytes } from 'node:crypto';
import type { Row, Sql } from 'postgres';
import { MacSecret } from '../lib/mac.ts';
import type { Events } from '../observability/events.ts';
import type { Metrics } from '../observability/metrics.ts';
import { completed } from '../postgres/connect.ts';
import { ChangeLogUpkeep } from './change-log-upkeep.ts';
import { changesOf, isTooOld, resolveConflicts } from './conflicts.ts';
import { beginAndDrain, type Drained, LOG_POSITION } from './drain.ts';
import { drawGeneration, type HistoryPosition, type ReceivedPosition, readPosition } from './history.ts';
import { Lag } from './lag.ts';
import { type FeedMessage, NO_CHANGES, Numbering, payloadsOf } from './messages.ts';
import { signed } from './payload.ts';
import { Reconciler } from './reconciler.ts';
import { type Corrections, type RedisStores, RedisWriter } from './redis-writer.ts';
import { isRejection, Transactions } from './transactions.ts';

/** Channel on which the active invalidator sends messages to every instance. */
export const FEED_CHANNEL = 'hotel_api_feed';
/** Interval of messages without changes. */
const HEARTBEAT_MS = 500;
/** Minimum interval of log lines with the same reason: while Redis is unavailable, each change begins a generation. */
const SAME_REASON_MS = 10_000;

/** SQLSTATE of a lock that was not acquired within `lock_timeout`. */
const LOCK_NOT_AVAILABLE = '55P03';
/** Age in seconds of the oldest row of both change logs; 0 for empty ones. */
const LOG_AGE = `select coalesce(extract(epoch from clock_timestamp() - least(
    (select changed_at from hotel_api_change_log order by position limit 1),
    (select changed_at from hotel_api_member_log order by position limit 1)
  ))::float8, 0) as age_s`;

/**
 * Does the work of the active invalidator during its term. It writes changes of the queue to Redis and announces them
 * to every instance in the transaction that takes them off the queue. A change is therefore announced if and only
 * if it leaves the queue, also when a step fails. Redis holds every announced change, or a new generation has begun.
 */
export class Term {
  readonly #sql: Sql;
  readonly #name: string;
  /** number of the term in its history */
  readonly #number: number;
  readonly #backendPid: number;
  readonly #transactions: Transactions;
  readonly #secret = new MacSecret();
  readonly #writer: RedisWriter | undefined;
  readonly #reconciler: Reconciler | undefined;
  readonly #metrics: Metrics;
  readonly #events: Events;
  readonly #lag: Lag;
  readonly #logUpkeep = new ChangeLogUpkeep();
  /** last position in the change log */
  #logPosition: number | undefined;
  #generation: string;
  /** the last announced one; the earlier term may have used another */
  #announcedGeneration = '';
  readonly #numbering: Numbering;
  #sentAtMs = -Infinity;
  #reported = { reason: '', atMs: -Infinity };

  /**
   * Begins a term on the only connection of `sql`. `lastMarker`: the last announced write marker. `received`: the
   * instance's last position; a database before it begins another history.
   */
  static async begin(
    sql: Sql,
    stores: RedisStores | undefined,
    lastMarker: string | null,
    received: ReceivedPosition,
    metrics: Metrics,
    events: Events,
  ): Promise<Term> {
    const name = randomBytes(6).toString('base64url');
    const [begun] = completed(
      await sql<{ backendPid: number }[]>`
        select pg_backend_pid() as "backendPid" from hotel_api_begin_term(
          ${name}, ${Math.ceil(received.version)}::float8::bigint, ${received.history}, ${received.number}::float8::bigint,
          ${received.term}, ${received.count}::float8::bigint
        )`,
    );
    const position = await readPosition(sql);
    return new Term(sql, stores, { ...begun!, ...position, name, lastMarker }, metrics, events);
  }

  private constructor(
    sql: Sql,
    stores: RedisStores | undefined,
    start: HistoryPosition & { name: string; backendPid: number; lastMarker: string | null },
    metrics: Metrics,
    events: Events,
  ) {
    this.#sql = sql;
    this.#name = start.name;
    this.#number = start.number + 1;
    this.#numbering = new Numbering(this.#name, [start.term, start.count]);
    this.#backendPid = start.backendPid;
    this.#transactions = new Transactions(sql);
    this.#secret.use(start.secret);
    this.#generation = start.generation;
    this.#metrics = metrics;
    this.#events = events;
    this.#lag = new Lag(metrics);
    if (!stores) return;
    this.#writer = new RedisWriter(stores, start.history, this.#name, start.lastMarker);
    this.#reconciler = new Reconciler(stores);
    this.#writer.useGeneration(this.#generation);
  }

  /** Returns whether the last poll found rows in the queue. */
  get hasMore(): boolean {
    return this.#transactions.hasMore;
  }

  /** Returns whether a delivery is due, of changes or as a heartbeat. Polls the queue if that is fast. */
  async isDue(): Promise<boolean> {
    const isDue = this.hasMore || performance.now() - this.#sentAtMs >= HEARTBEAT_MS;
    if (isDue || this.#transactions.isFar) return true;
    await this.#transactions.poll();
    return this.hasMore;
  }

  /**
   * Announces the changes in the queue, or sends a heartbeat when one is due or requested. Returns the number of rows
   * taken. It waits for PostgreSQL twice: with a round trip of 200 ms, waiting for each statement would delay a
   * change beyond 1 s.
   */
  deliver(heartbeat = false): Promise<number> {
    return this.#transactions.orRollBack(async () => {
      const polledAtMs = performance.now();
      const drained = await this.#drain();
      this.#logPosition = drained.position;
      this.#transactions.notePoll(polledAtMs, drained.rows > 0);
      const quiet = !heartbeat && performance.now() - this.#sentAtMs < HEARTBEAT_MS;
      if (drained.rows === 0 && quiet) {
        if (!this.#transactions.isFar) await this.#transactions.commit();
        return 0;
      }
      const isLate = this.#writer !== undefined && isTooOld(polledAtMs);
      const written = isLate ? undefined : await this.#writer?.write(drained);
      let suspect = isLate ? 'changes were read too long ago' : written?.suspect;
      if (written && drained.keys.length < drained.changes.keys.length)
        suspect ??= 'changed API keys could not be read';
      if (written && !(await resolveConflicts(this.#sql, this.#writer!, written.rejected, drained)))
        suspect ??= 'it keeps what may be wrong';
      const sinceMs = Math.max(polledAtMs - Math.max(0, drained.oldestMs), this.#transactions.emptyAtMs);
      await this.#sendAndCommit(
        drained.changes,
        suspect,
        written?.lost,
        drained.rows > 0 ? sinceMs : undefined,
      );
      this.#reconciler?.recheck(drained);
      this.#metrics.changes.inc({ kind: 'hotels' }, drained.changes.hotels.length);
      this.#metrics.changes.inc({ kind: 'keys' }, drained.changes.keys.length);
      this.#metrics.changes.inc({ kind: 'members' }, drained.members);
      this.#metrics.changes.inc({ kind: 'truncated' }, drained.changes.truncated.length);
      return drained.rows;
    });
  }

  /**
   * Begins a transaction and takes changes off the queue. During a TRUNCATE or ALTER TABLE, waiting or running, rows
   * cannot be read, possibly for hours; changes are announced all the same.
   */
  async #drain(): Promise<Drained> {
    try {
      return await this.#transactions.begin((begin) => beginAndDrain(this.#sql, begin, this.#backendPid));
    } catch (error) {
      if ((error as { code?: string }).code !== LOCK_NOT_AVAILABLE) throw error;
      return await this.#transactions.begin(() =>
        beginAndDrain(this.#sql, 'rollback; begin', this.#backendPid, false),
      );
    }
  }

  /** Measures the lag of a message that has returned. */
  received({ e, n }: FeedMessage): void {
    if (e === this.#name) this.#lag.received(n);
  }

  /** Compares a part of Redis with PostgreSQL when it is due, and corrects and announces differences. */
  async reconcile(): Promise<void> {
    // Redis is unavailable, and will be invalidated
    if (!this.#reconciler?.due || this.#writer?.writeMarker === null) return;
    const readAtMs = performance.now();
    const found = await this.#reconciler.step(this.#sql).catch((error) => {
      // a locked table prevents comparing, not announcing
      if (!isRejection(error)) throw error;
      this.#events.notCompared(error.message);
    });
    if (!found || found.entries.length + found.keys.length === 0) return;
    this.#metrics.reconciled.inc({ kind: 'hotels' }, found.entries.length);
    this.#metrics.reconciled.inc({ kind: 'keys' }, found.keys.length);
    this.#events.reconciled(found.entries.length, found.keys.length);
    await this.#transactions.orRollBack(() => this.#correct(found, readAtMs));
  }

  /** Logs the hotels whose certification begins or ends today, and prunes the change log. */
  async keepLog(): Promise<void> {
    const day = this.#logUpkeep.dayToLog;
    if (day !== undefined) await this.#logFlips(day);
    if (this.#logUpkeep.mustPrune) await this.#prune();
  }

  async #logFlips(day: string): Promise<void> {
    try {
      await this.#transactions.orRollBack(async () => {
        const results = completed(
          await this.#transactions.begin((begin) =>
            this.#sql
              .unsafe(`${begin}; select hotel_api_log_flips('${day}') as all_logged; ${LOG_POSITION}`)
              .simple(),
          ),
        ) as unknown as Row[][];
        this.#logPosition = results.at(-1)![0]!.position;
        await this.#sendAndCommit(NO_CHANGES, undefined);
        this.#logUpkeep.logged(day, results.at(-2)![0]!.all_logged);
      });
    } catch (error) {
      if (!isRejection(error)) throw error;
      this.#logUpkeep.flipsFailed();
      this.#events.changeLogNotKept(error.message);
    }
  }

  async #prune(): Promise<void> {
    let rows: number | undefined;
    try {
      const [log] = completed(await this.#sql.unsafe(LOG_AGE));
      this.#metrics.changeLogAge(log!.age_s);
      await this.#transactions.orRollBack(async () => {
        const results = await this.#transactions.run('select hotel_api_prune_change_log() as rows');
        rows = results.at(-2)![0]!.rows as number;
        this.#metrics.changeLogPruned.inc(rows);
      });
    } catch (error) {
      if (!isRejection(error)) throw error;
      this.#events.changeLogNotKept(error.message);
    }
    this.#logUpkeep.pruned(rows);
  }

  async #correct(found: Corrections, readAtMs: number): Promise<void> {
    await this.#transactions.begin((begin) => this.#sql.unsafe(begin).simple());
    const ids = found.entries.map(({ id }) => id);
    const [log] = completed(
      await this.#sql<{ position: number }[]>`
        select hotel_api_log_changes(${ids}::text[], false)::float8 as position`,
    );
    this.#logPosition = log!.position;
    const taken = isTooOld(readAtMs) ? undefined : await this.#writer!.replace(found);
    const movesPositions = found.entries.some(({ present }) => !present);
    await this.#sendAndCommit(
      { ...changesOf(found), members: [], truncated: [], movesPositions },
      taken ? undefined : 'it did not take a correction',
    );
  }

  /** `sinceMs`: earliest possible commit of the oldest change, if it is to be measured. */
  async #sendAndCommit(
    changes: Drained['changes'],
    suspect: string | undefined,
    lost = false,
    sinceMs?: number,
  ): Promise<void> {
    this.#sentAtMs = performance.now();
    if (suspect !== undefined || changes.truncated.length > 0) {
      this.#generation = drawGeneration();
      this.#writer?.useGeneration(this.#generation);
      if (this.#writer) {
        this.#metrics.redisGenerations.inc();
        this.#report(suspect ?? 'a table was truncated');
      }
    }
    const frame = {
      e: this.#name,
      o: this.#number,
      b: this.#writer?.writeMarker ?? null,
      ...(this.#logPosition !== undefined && { q: this.#logPosition }),
      ...(lost && { l: true as const }),
    };
    const generations = { before: this.#announcedGeneration, after: this.#generation };
    this.#announcedGeneration = this.#generation;
    const announcedBefore = this.#numbering.announcedCount;
    const payloads = payloadsOf(changes, frame, generations, this.#numbering);
    if (sinceMs !== undefined) this.#lag.sent(this.#numbering.n, sinceMs);
    const values = payloads.map((json) => `(${literal(signed(json, this.#secret))})`);
    const place = [
      literal(this.#name),
      this.#backendPid,
      announcedBefore,
      this.#numbering.announcedCount,
      literal(this.#generation),
    ];
    await this.#transactions.commit(
      `select hotel_api_announce(${place.join()}); select pg_notify('${FEED_CHANNEL}', payload) from (values ${values.join(',')}) as messages (payload);`,
    );
  }

  /** Logs why a generation begins. */
  #report(reason: string): void {
    const atMs = performance.now();
    if (reason === this.#reported.reason && atMs - this.#reported.atMs < SAME_REASON_MS) return;
    this.#reported = { reason, atMs };
    this.#events.newGeneration(this.#generation, reason);
  }
}

/** Quotes a text for SQL, whatever the server's setting for backslashes. */
function literal(text: string): string {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}
