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

/** On this channel the active invalidator speaks to every instance. */
export const FEED_CHANNEL = 'hotel_api_feed';
/** Every message is also a sign of life; without changes one goes out this often. */
const HEARTBEAT_MS = 500;

/**
 * Where PostgreSQL answers within this time, a look at the queue comes before anything is taken off it: it costs a tenth
 * of that. Where PostgreSQL is further away, round trips count for more.
 */
const CLOSE_MS = 50;
/** SQLSTATE of a lock that is not had within `lock_timeout`. */
const LOCK_NOT_AVAILABLE = '55P03';
/** Each round fails only where another writer of Redis has put a newer value since the round before. */
const SETTLE_ROUNDS = 3;
const NO_CHANGES: Changes = { hotels: [], keys: [], members: [], truncated: [], movesPositions: false };
const LOOK = 'select exists(select from hotel_api_changes) as found';

/**
 * The work of the active invalidator while it is that. What it takes off the queue it writes to Redis and tells to
 * every instance in the transaction that takes it off, so a change is told exactly when it is off the queue,
 * whatever dies in between, and what was told Redis holds, or its generation has ended.
 */
export class Term {
  readonly #sql: Sql;
  readonly #name: string;
  /** which one of the history */
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
  /** the generation that was told last; that of the term before may have been another */
  #position = '';
  readonly #numbering: Numbering;
  #sentAtMs = -Infinity;
  /** when the queue was last found empty: what is found there later was committed later */
  #emptyAtMs = -Infinity;
  #hasMore = false;
  #pollTookMs = 0;
  /** A far delivery that found nothing leaves its transaction open: the next one commits it in its own first message. */
  #isOpen = false;

  /**
   * Begins a term on the only connection of `sql`. `lastBeat`: the write marker that was last told of. `heard`: what the
   * instance heard last; a database that stands before it begins another history.
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
    // what it tells is on disk before it is told, and with it all that was committed before
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

  /** Whether the queue was not empty when it was looked at last. */
  get hasMore(): boolean {
    return this.#hasMore;
  }

  /** Whether a delivery is due: of changes, or as a sign of life. Looks at the queue where that is quick. */
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

  /** Begins a transaction, which is the first statement of a message. */
  get #begin(): string {
    return this.#isOpen ? 'commit; begin' : 'begin';
  }

  /**
   * Sends these statements and the commit as one message: nothing is committed where they failed. The look at the queue
   * behind it saves a round trip to a change that was committed meanwhile.
   */
  async #commit(statements = ''): Promise<void> {
    const sentAtMs = performance.now();
    const results = completed(await this.#sql.unsafe(`${statements} commit; ${LOOK}`).simple());
    this.#isOpen = false;
    this.#notePoll(sentAtMs, (results as unknown as Row[][]).at(-1)![0]!.found);
  }

  /**
   * Tells of what stands in the queue, or from time to time, and where `speak` at once, that the term goes on.
   * Returns how many rows it took off. From the first byte to the commit it waits for PostgreSQL twice: with that
   * 200 ms away, there and back, a change would be served after more than 1 s if each statement were waited for.
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
   * Begins a transaction and takes changes off the queue. Where a TRUNCATE or ALTER TABLE works or waits, the rows cannot
   * be read, maybe for hours; what changed is told all the same.
   */
  async #drain(): Promise<Drained> {
    try {
      return await beginAndDrain(this.#sql, this.#begin, this.#backendPid);
    } catch (error) {
      if ((error as { code?: string }).code !== LOCK_NOT_AVAILABLE) throw error;
      return await beginAndDrain(this.#sql, 'rollback; begin', this.#backendPid, false);
    }
  }

  /** A message has come back: what it tells of is measured. */
  received({ e, n }: FeedMessage): void {
    if (e === this.#name) this.#lag.received(n);
  }

  /** Now and then looks whether Redis holds what PostgreSQL does, and corrects and tells what it does not. */
  async reconcile(): Promise<void> {
    // Redis is away: what it holds will be given up
    if (!this.#reconciler?.due || this.#writer?.writeMarker === null) return;
    const found = await this.#reconciler.step(this.#sql).catch((error) => {
      // a table that is locked (an ALTER TABLE waits for others) keeps it from comparing, not from speaking
      if (!isRejection(error)) throw error;
      this.#events.notCompared(error.message);
    });
    if (!found || found.entries.length + found.keys.length === 0) return;
    this.#metrics.reconciled('hotels', found.entries.length);
    this.#metrics.reconciled('keys', found.keys.length);
    this.#events.reconciled(found.entries.length, found.keys.length);
    await this.#orRollBack(() => this.#correct(found));
  }

  /** Logs the hotels whose certification begins or ends today, and deletes from the change log what is too old. */
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
   * Replaces what Redis holds where it refused what was just read. Either a worker filled in a later change, or the row
   * has a smaller version than Redis knows of. A row gets one by an INSERT that drew its version and then waited for a
   * transaction that changed and deleted the same row, and by a history that was cut short. The table as it is now
   * counts, whatever the versions say. Returns false where Redis did not take it.
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

  /** What the tables say now of what Redis refused. */
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

  /** `sinceMs`: when the oldest of the changes can have been committed at the earliest, where that is to be measured. */
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
   * Undoes the transaction that `work` began where the server refused something. With a lost connection it is gone
   * anyway, and a statement that postgres.js 3.4 is given between a connection's error and its end is never settled.
   * (Its own `begin` would give it one.)
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

/** What is told of the truth in the place of what was wrong. */
function changesOf({ entries, keys }: Findings): Pick<Changes, 'hotels' | 'keys'> {
  return {
    hotels: entries.map(({ id, version, channelId, registryId }) => [id, version, channelId, registryId]),
    keys: keys.map(([sha256, { version }]) => [sha256, version]),
  };
}

/** True of what the server refused, and not the connection. */
function isRejection(error: unknown): error is Error {
  return (error as Error).name === 'PostgresError';
}

/** A text in SQL, however the server is set to read backslashes. */
function literal(text: string): string {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}
