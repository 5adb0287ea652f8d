import { randomBytes } from 'node:crypto';
import type { Row, Sql } from 'postgres';
import { encodeAbsence, versionOfRemoved } from '../hotels/encode.ts';
import { MacSecret } from '../lib/mac.ts';
import type { Events } from '../observability/events.ts';
import type { Metrics } from '../observability/metrics.ts';
import { completed } from '../postgres/connect.ts';
import { ChangeLogUpkeep } from './change-log-upkeep.ts';
import { readHotels, readKeys } from './changed-rows.ts';
import type { Claims, Findings } from './compare.ts';
import { Numbering } from './continuity.ts';
import { beginAndDrain, type Drained, LOG_POSITION } from './drain.ts';
import { drawGeneration, type HistoryPosition, type ReceivedPosition, readPosition } from './history.ts';
import { Lag } from './lag.ts';
import { type Changes, type FeedMessage, payloadsOf } from './messages.ts';
import { signed } from './payload.ts';
import { Reconciler } from './reconciler.ts';
import { type RedisStores, RedisWriter } from './redis-writer.ts';

/** Channel on which the active invalidator sends messages to every instance. */
export const FEED_CHANNEL = 'hotel_api_feed';
/** Interval of messages without changes. */
const HEARTBEAT_MS = 500;

/**
 * Round-trip time below which a poll precedes each drain, because a poll costs a tenth of a drain. With a more
 * distant PostgreSQL, round trips count for more.
 */
const CLOSE_MS = 50;
/** SQLSTATE of a lock that was not acquired within `lock_timeout`. */
const LOCK_NOT_AVAILABLE = '55P03';
/**
 * Maximum number of rounds; each fails only if another writer of Redis stored a newer value since the previous one.
 */
const SETTLE_ROUNDS = 3;
const NO_CHANGES: Changes = { hotels: [], keys: [], members: [], truncated: [], movesPositions: false };
const LOOK = 'select exists(select from hotel_api_changes) as found';

/**
 * Does the work of the active invalidator during its term. It writes changes of the queue to Redis and announces them
 * to every instance in the transaction that takes them off the queue. A change is therefore announced exactly when it
 * is off the queue, whatever fails in between, and Redis holds every announced change or its generation has ended.
 */
export class Term {
  readonly #sql: Sql;
  readonly #name: string;
  /** number of the term in its history */
  readonly #number: number;
  readonly #backendPid: number;
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
  /** the last announced generation; the earlier term may have used another */
  #position = '';
  readonly #numbering: Numbering;
  #sentAtMs = -Infinity;
  /** when the queue was last found empty: later changes were committed after that */
  #emptyAtMs = -Infinity;
  #hasMore = false;
  #pollTookMs = 0;
  /** A distant delivery without changes leaves its transaction open; the next one commits it in its first message. */
  #isOpen = false;

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
    // announcements are durable before they are sent, and so is everything committed before them
    await sql`
      select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'`;
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
    return this.#hasMore;
  }

  /** Returns whether a delivery is due, of changes or as a heartbeat. Polls the queue if that is fast. */
  async isDue(): Promise<boolean> {
    const lookedAtMs = performance.now();
    const isDue = this.#hasMore || lookedAtMs - this.#sentAtMs >= HEARTBEAT_MS;
    if (isDue || this.#isFar) return true;
    const [row] = completed(await this.#sql.unsafe(LOOK, [], { prepare: true }));
    this.#notePoll(lookedAtMs, row!.found);
    return this.#hasMore;
  }

  get #isFar(): boolean {
    return this.#pollTookMs > CLOSE_MS;
  }

  #notePoll(lookedAtMs: number, found: boolean): void {
    this.#hasMore = found;
    if (found) return;
    this.#pollTookMs = performance.now() - lookedAtMs;
    this.#emptyAtMs = lookedAtMs;
  }

  /** Begins a transaction as the first statement of a message. */
  get #begin(): string {
    return this.#isOpen ? 'commit; begin' : 'begin';
  }

  /**
   * Sends these statements and the commit as one message, so nothing is committed after a failure. The poll behind it
   * saves a round trip for a change that was committed meanwhile.
   */
  async #commit(statements = ''): Promise<void> {
    const sentAtMs = performance.now();
    const results = completed(await this.#sql.unsafe(`${statements} commit; ${LOOK}`).simple());
    this.#isOpen = false;
    this.#notePoll(sentAtMs, (results as unknown as Row[][]).at(-1)![0]!.found);
  }

  /**
   * Announces the changes in the queue, or sends a heartbeat when one is due or requested. Returns the number of rows
   * taken. It waits for PostgreSQL twice: with a round trip of 200 ms, waiting for each statement would delay a
   * change beyond 1 s.
   */
  deliver(speak = false): Promise<number> {
    return this.#orRollBack(async () => {
      const lookedAtMs = performance.now();
      const drained = await this.#drain();
      this.#isOpen = true;
      this.#logPosition = drained.position;
      this.#notePoll(lookedAtMs, drained.rows > 0);
      const quiet = !speak && performance.now() - this.#sentAtMs < HEARTBEAT_MS;
      if (drained.rows === 0 && quiet) {
        if (!this.#isFar) await this.#commit();
        return 0;
      }
      const written = await this.#writer?.write(drained);
      let suspect = written?.suspect;
      if (written && drained.keys.length < drained.changes.keys.length)
        suspect ??= 'changed API keys could not be read';
      if (written && !(await this.#settle(written.rejected, drained)))
        suspect ??= 'it keeps what may be wrong';
      const sinceMs = Math.max(lookedAtMs - Math.max(0, drained.oldestMs), this.#emptyAtMs);
      await this.#sendAndCommit(
        drained.changes,
        suspect,
        written?.lost,
        drained.rows > 0 ? sinceMs : undefined,
      );
      this.#reconciler?.lookAgainAt(drained);
      this.#metrics.changes('hotels', drained.changes.hotels.length);
      this.#metrics.changes('keys', drained.changes.keys.length);
      this.#metrics.changes('members', drained.members);
      this.#metrics.changes('truncated', drained.changes.truncated.length);
      return drained.rows;
    });
  }

  /**
   * Begins a transaction and takes changes off the queue. During a TRUNCATE or ALTER TABLE, waiting or running, rows
   * cannot be read, possibly for hours; changes are announced all the same.
   */
  async #drain(): Promise<Drained> {
    try {
      return await beginAndDrain(this.#sql, this.#begin, this.#backendPid);
    } catch (error) {
      if ((error as { code?: string }).code !== LOCK_NOT_AVAILABLE) throw error;
      return await beginAndDrain(this.#sql, 'rollback; begin', this.#backendPid, false);
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
    const found = await this.#reconciler.step(this.#sql).catch((error) => {
      // a locked table prevents comparing, not announcing
      if (!isRejection(error)) throw error;
      this.#events.notCompared(error.message);
    });
    if (!found || found.entries.length + found.keys.length === 0) return;
    this.#metrics.reconciled('hotels', found.entries.length);
    this.#metrics.reconciled('keys', found.keys.length);
    this.#events.reconciled(found.entries.length, found.keys.length);
    await this.#orRollBack(() => this.#correct(found));
  }

  /** Logs the hotels whose certification begins or ends today, and prunes the change log. */
  async keepLog(): Promise<void> {
    const day = this.#logUpkeep.dayToLog;
    if (day !== undefined) await this.#logFlips(day);
    if (this.#logUpkeep.mustPrune) await this.#prune();
  }

  async #logFlips(day: string): Promise<void> {
    try {
      await this.#orRollBack(async () => {
        const results = completed(
          await this.#sql
            .unsafe(`${this.#begin}; select hotel_api_log_flips('${day}') as all_logged; ${LOG_POSITION}`)
            .simple(),
        ) as unknown as Row[][];
        this.#isOpen = true;
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
      await this.#orRollBack(async () => {
        const results = completed(
          await this.#sql
            .unsafe(`${this.#begin}; select hotel_api_prune_change_log() as rows; commit`)
            .simple(),
        ) as unknown as Row[][];
        this.#isOpen = false;
        rows = results.at(-2)![0]!.rows as number;
        this.#metrics.changeLogPruned(rows);
      });
    } catch (error) {
      if (!isRejection(error)) throw error;
      this.#events.changeLogNotKept(error.message);
    }
    this.#logUpkeep.pruned(rows);
  }

  /**
   * Replaces values in Redis that rejected the present row. Either a worker stored a later change, or the row has a
   * smaller version than Redis knows. Such a row results from an INSERT that drew its version and then waited for a
   * transaction that changed and deleted the same row, or from a history that was cut short. The present table
   * counts, whatever the versions say. Returns false if Redis did not take a value.
   */
  async #settle(rejected: Claims, drained: Drained): Promise<boolean> {
    let claimed = rejected;
    for (let round = 0; claimed.hotels.size + claimed.keys.size > 0; round++) {
      if (round === SETTLE_ROUNDS) return false;
      const truth = await this.#truthOf(claimed, drained);
      const announced = changesOf(truth);
      drained.changes.hotels.push(...announced.hotels);
      drained.changes.keys.push(...announced.keys);
      const left = await this.#writer!.replace(truth);
      if (!left) return false;
      claimed = left;
    }
    return true;
  }

  /** Reads the present rows of what Redis rejected. */
  async #truthOf(claimed: Claims, { entries, keys }: Drained): Promise<Findings> {
    const truth: Findings = { entries: [], keys: [], claimed };
    if (claimed.hotels.size > 0) {
      // tombstones say nothing of the rows
      const rows = entries[0]?.isTombstone
        ? undefined
        : await readHotels(this.#sql, [...claimed.hotels.keys()]);
      for (const entry of entries) {
        const { id, version } = entry;
        if (!claimed.hotels.has(id)) continue;
        const gone = entry.present ? encodeAbsence(id, versionOfRemoved(version)) : entry;
        truth.entries.push(rows?.get(id) ?? gone);
      }
    }
    if (claimed.keys.size > 0) {
      const rows = await readKeys(this.#sql, [...claimed.keys.keys()]);
      for (const [sha256, { version, record }] of keys) {
        if (!claimed.keys.has(sha256)) continue;
        const gone = { version: record ? versionOfRemoved(version) : version, record: null };
        truth.keys.push([sha256, rows.get(sha256) ?? gone]);
      }
    }
    return truth;
  }

  async #correct(found: Findings): Promise<void> {
    await this.#sql.unsafe(this.#begin).simple();
    this.#isOpen = true;
    const ids = found.entries.map(({ id }) => id);
    const [log] = completed(
      await this.#sql<{ position: number }[]>`
        select hotel_api_log_changes(${ids}::text[], false)::float8 as position`,
    );
    this.#logPosition = log!.position;
    const taken = await this.#writer!.replace(found);
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
        this.#metrics.redisInvalidated();
        this.#events.newGeneration(this.#generation, suspect ?? 'a table was truncated');
      }
    }
    const frame = {
      e: this.#name,
      o: this.#number,
      b: this.#writer?.writeMarker ?? null,
      ...(this.#logPosition !== undefined && { q: this.#logPosition }),
      ...(lost && { l: true as const }),
    };
    const generations = { before: this.#position, after: this.#generation };
    this.#position = this.#generation;
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
    await this.#commit(
      `select hotel_api_announce(${place.join()}); select pg_notify('${FEED_CHANNEL}', payload) from (values ${values.join(',')}) as told (payload);`,
    );
  }

  /**
   * Rolls back the transaction that `work` began if the server rejected a statement. After a lost connection there is
   * nothing to roll back, and postgres.js 3.4 never settles a statement between a connection's error and its end.
   */
  async #orRollBack<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (isRejection(error)) await this.#sql`rollback`.catch(() => {});
      this.#isOpen = false;
      throw error;
    }
  }
}

/** Returns the changes to announce for corrections. */
function changesOf({ entries, keys }: Findings): Pick<Changes, 'hotels' | 'keys'> {
  return {
    hotels: entries.map(({ id, version, channelId, registryId }) => [id, version, channelId, registryId]),
    keys: keys.map(([sha256, { version }]) => [sha256, version]),
  };
}

/** Returns true for an error of the server, false for one of the connection. */
function isRejection(error: unknown): error is Error {
  return (error as Error).name === 'PostgresError';
}

/** Quotes a text for SQL, whatever the server's setting for backslashes. */
function literal(text: string): string {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}
