import type { Sql } from 'postgres';
import { readUnverified } from '../../change-feed/payload.ts';
import { FEED_CHANNEL } from '../../change-feed/term.ts';
import type { ChangesFollower } from './changes-follower.ts';
import { DatabaseState } from './database-state.ts';
import type { ServiceClient } from './service-client.ts';

/** Hotels compared in a round at random, and changed hotels followed of one message. */
const SAMPLE = 5;
const FOLLOWED = 3;
const ROUND_MS = 250;
/** Interval between checks of the change queue. */
const WATCH_MS = 5;
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
 * Checks the freshness of the service like Polaris of Meta (engineering.fb.com, "Cache made consistent", 2022). It receives
 * the changes like a cache, reads hotels in PostgreSQL, changed and unchanged, and requests them over many connections.
 * It is read-only.
 */
export class FreshnessChecker {
  readonly #sql: Sql;
  readonly #listener: Sql;
  readonly #clients: ServiceClient[];
  readonly #promiseMs: () => number;
  readonly #follower: ChangesFollower | undefined;
  readonly report: Report = { answers: 0, rejected: 0, changes: 0, lagsMs: [], mirrorLagsMs: [], stale: [] };
  readonly #following = new Set<Promise<unknown>>();
  /** time at which an unannounced change was first seen in the queue */
  #committedAtMs: number | undefined;
  #received = 0;
  #failure: unknown;

  /**
   * Takes a pool for queries, a pool that listens, and a function that returns the current maximum age of a response.
   * The caller runs the follower of `GET /changes`.
   */
  constructor(
    sql: Sql,
    listener: Sql,
    clients: ServiceClient[],
    promiseMs: () => number,
    follower?: ChangesFollower,
  ) {
    this.#sql = sql;
    this.#listener = listener;
    this.#clients = clients;
    this.#promiseMs = promiseMs;
    this.#follower = follower;
  }

  /** Runs until the signal aborts. Throws a `Failure` if the service does not respond as expected. */
  async run(signal: AbortSignal): Promise<Report> {
    const listened = () => {
      // messages between two connections are lost
      this.#received++;
      this.#committedAtMs = undefined;
    };
    await this.#listener.listen(FEED_CHANNEL, (payload) => this.#receive(payload, signal), listened);
    const watching = this.#watchQueue(signal);
    while (!signal.aborted) {
      const roundAtMs = performance.now();
      await this.#sample();
      const promiseMs = this.#promiseMs();
      if (this.#committedAtMs !== undefined && roundAtMs - this.#committedAtMs > promiseMs) {
        this.report.stale.push(`a committed change was not announced within ${promiseMs} ms`);
        this.#committedAtMs = undefined;
      }
      if (this.#failure) throw this.#failure;
      const restMs = Math.max(0, ROUND_MS - (performance.now() - roundAtMs));
      await new Promise((resolve) => setTimeout(resolve, restMs));
    }
    await Promise.all([watching, ...this.#following]);
    return this.report;
  }

  /** Notes when the queue contains a change that is committed but not announced. */
  async #watchQueue(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const [watchedAtMs, received] = [performance.now(), this.#received];
      try {
        const [row] = await this.#sql<
          { found: boolean }[]
        >`select exists(select from hotel_api_changes) as found`;
        if (row?.found && received === this.#received) this.#committedAtMs ??= watchedAtMs;
      } catch (error) {
        this.#failure ??= error;
      }
      await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
    }
  }

  #receive(payload: string, signal: AbortSignal): void {
    const message = readUnverified(payload);
    if (!message?.h && !message?.k && !message?.t) return;
    this.#received++;
    const committedAtMs = this.#committedAtMs ?? performance.now();
    this.#committedAtMs = undefined;
    if (signal.aborted || this.#following.size > 20) return;
    for (const [id] of message.h?.slice(0, FOLLOWED) ?? []) {
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
