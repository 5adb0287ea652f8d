import type { Sql } from 'postgres';
import type { ChangesFollower } from './changes-follower.ts';
import { DatabaseState } from './database-state.ts';
import type { ServiceClient } from './service-client.ts';

/** Hotels compared in a round at random, and changed hotels followed of one row of the log. */
const SAMPLE = 5;
const FOLLOWED = 3;
const ROUND_MS = 250;
/** Interval between reads of the log. */
const WATCH_MS = 5;
/** Rows of the log read at once. */
const MAX_ROWS = 20;

/** Rows of changed hotels after a position, with the state of the log: whether changes have committed that it lacks. */
const LOG_AFTER = `select state.is_unread, state.last::float8, row.position::float8, row.ids, row.age_ms
  from (
    select position as last, exists (
        select from hotel_api_ranges((state).snapshot, pg_current_snapshot())
          join hotel_api_queue on transaction between low and high
      ) as is_unread
    from hotel_api_log order by position desc limit 1
  ) as state
  left join lateral (
    select position, ids, extract(epoch from clock_timestamp() - at)::float8 * 1000 as age_ms from hotel_api_log
    where position > $1 and kind = 'hotels' order by position limit ${MAX_ROWS}
  ) as row on true`;

interface LogAfter {
  is_unread: boolean;
  last: number;
  /** null: no rows */
  position: number | null;
  ids: string[];
  age_ms: number;
}
/** Maximum pause between requests for a change that is not visible yet. */
const MAX_PAUSE_MS = 50;

/** Result of a check. */
export interface Report {
  /** responses compared with PostgreSQL */
  answers: number;
  /** requests rejected by the service (503), which cannot be compared */
  rejected: number;
  /** changes that became visible on every connection */
  changes: number;
  /** time from the commit until each change was visible on each connection */
  lagsMs: number[];
  /** time from the commit until each change was in GET /changes */
  mirrorLagsMs: number[];
  /** a message for each response older than promised */
  stale: string[];
}

/**
 * Checks the freshness of the service like Polaris of Meta (engineering.fb.com, "Cache made consistent", 2022). It follows
 * the log like a cache, reads hotels in PostgreSQL, changed and unchanged, and requests them over many connections.
 * It is read-only.
 */
export class FreshnessChecker {
  readonly #sql: Sql;
  readonly #clients: ServiceClient[];
  readonly #promiseMs: () => number;
  readonly #follower: ChangesFollower | undefined;
  readonly report: Report = { answers: 0, rejected: 0, changes: 0, lagsMs: [], mirrorLagsMs: [], stale: [] };
  readonly #following = new Set<Promise<unknown>>();
  /** time since which committed changes are seen that are not in the log */
  #unreadSinceMs: number | undefined;
  #failure: unknown;

  /**
   * Takes a pool for queries, and a function that returns the current maximum age of a response. The caller runs the
   * follower of `GET /changes`.
   */
  constructor(sql: Sql, clients: ServiceClient[], promiseMs: () => number, follower?: ChangesFollower) {
    this.#sql = sql;
    this.#clients = clients;
    this.#promiseMs = promiseMs;
    this.#follower = follower;
  }

  /** Runs until the signal aborts. Throws a `Failure` if the service does not respond as expected. */
  async run(signal: AbortSignal): Promise<Report> {
    const watching = this.#watchLog(signal);
    while (!signal.aborted) {
      const roundAtMs = performance.now();
      await this.#sample();
      const promiseMs = this.#promiseMs();
      if (this.#unreadSinceMs !== undefined && roundAtMs - this.#unreadSinceMs > promiseMs) {
        this.report.stale.push(`a committed change was not in the log within ${promiseMs} ms`);
        this.#unreadSinceMs = undefined;
      }
      if (this.#failure) throw this.#failure;
      const restMs = Math.max(0, ROUND_MS - (performance.now() - roundAtMs));
      await new Promise((resolve) => setTimeout(resolve, restMs));
    }
    await Promise.all([watching, ...this.#following]);
    return this.report;
  }

  /** Follows the log. A change is as old as its position, which it got right behind the commit. */
  async #watchLog(signal: AbortSignal): Promise<void> {
    let position: number | undefined;
    while (!signal.aborted) {
      const watchedAtMs = performance.now();
      try {
        const rows = await this.#sql.unsafe<LogAfter[]>(LOG_AFTER, [position ?? Number.MAX_SAFE_INTEGER]);
        const [state] = rows;
        this.#unreadSinceMs = state?.is_unread ? (this.#unreadSinceMs ?? watchedAtMs) : undefined;
        for (const { position: at, ids, age_ms: ageMs } of rows)
          if (at !== null) this.#changed(ids, performance.now() - ageMs, signal);
        position = rows.length < MAX_ROWS ? state?.last : rows.at(-1)!.position!;
      } catch (error) {
        this.#failure ??= error;
      }
      await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
    }
  }

  #changed(ids: string[], committedAtMs: number, signal: AbortSignal): void {
    // more at once would wait for each other's requests, and their lags would be those of this queue
    if (signal.aborted || this.#following.size >= FOLLOWED) return;
    for (const id of ids.slice(0, FOLLOWED)) {
      const following = Promise.all([
        this.#follow(id, committedAtMs),
        this.#followInChanges(id, committedAtMs, signal),
      ])
        .catch((error) => {
          this.#failure ??= error;
        })
        .finally(() => this.#following.delete(following));
      this.#following.add(following);
    }
  }

  /** Requests a changed hotel on every connection until the response matches PostgreSQL. */
  async #follow(id: string, committedAtMs: number): Promise<void> {
    const truth = new DatabaseState(this.#sql);
    await truth.read([id]);
    const lags = await Promise.all(
      this.#clients.map((client) => this.#untilShown(client, id, truth, committedAtMs)),
    );
    const shown = lags.filter((lagMs) => lagMs !== undefined);
    this.report.lagsMs.push(...shown);
    if (shown.length === lags.length) this.report.changes++;
  }

  /** Waits until a changed hotel is in `GET /changes`. */
  async #followInChanges(id: string, committedAtMs: number, signal: AbortSignal): Promise<void> {
    if (!this.#follower) return;
    const truth = new DatabaseState(this.#sql);
    await truth.read([id]);
    const lagMs = await this.#follower.untilDelivered(id, truth, committedAtMs, this.#promiseMs, signal);
    if (lagMs === 'late')
      this.report.stale.push(`GET /changes: no change of hotel ${id} after ${this.#promiseMs()} ms`);
    else if (lagMs !== undefined) this.report.mirrorLagsMs.push(lagMs);
  }

  /** Compares a few random hotels on every connection. */
  async #sample(): Promise<void> {
    const ids = await this.#anyIds();
    const truth = new DatabaseState(this.#sql);
    await truth.read(ids);
    const readAtMs = performance.now();
    const compare = async (client: ServiceClient) => {
      for (const id of ids) await this.#untilShown(client, id, truth, readAtMs);
    };
    await Promise.all(this.#clients.map(compare));
  }

  /**
   * Requests a hotel until the response matches a state of PostgreSQL since `sinceMs`. Returns the time since then, or
   * undefined if the request was rejected or the response is too old, which is reported.
   */
  async #untilShown(
    client: ServiceClient,
    id: string,
    truth: DatabaseState,
    sinceMs: number,
  ): Promise<number | undefined> {
    for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      const requestedAtMs = performance.now();
      const shown = await client.get(id);
      const shownAtMs = performance.now();
      if (shown === undefined) {
        this.report.rejected++;
        return undefined;
      }
      this.report.answers++;
      if (await truth.matches(id, shown)) return shownAtMs - sinceMs;
      if (requestedAtMs - sinceMs > this.#promiseMs()) {
        this.report.stale.push(`hotel ${id}: older than ${Math.round(requestedAtMs - sinceMs)} ms`);
        return undefined;
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  async #anyIds(): Promise<string[]> {
    const [row] = await this.#sql<{ percent: number }[]>`
      select least(100, 100 * 1000.0 / greatest(reltuples, 1))::float8 as percent
      from pg_class where oid = 'hotels'::regclass`;
    const rows = await this.#sql<{ id: string }[]>`
      select id from (select id from hotels tablesample system (${row!.percent}) limit 10000) as sampled
      order by random() limit ${SAMPLE}`;
    return rows.map(({ id }) => id);
  }
}
