import type { Sql } from 'postgres';
import { readUnverified } from '../../change-feed/payload.ts';
import { FEED_CHANNEL } from '../../change-feed/term.ts';
import type { ServiceClient } from './asker.ts';
import { DatabaseState } from './truth.ts';

/** Hotels looked at in a round, whether they changed or not; and those that changed, of one message. */
const SAMPLE = 5;
const FOLLOWED = 3;
const ROUND_MS = 250;
/** How often the queue of changes is looked at. */
const LOOK_MS = 5;
/** What is not shown yet is asked for again after a pause that grows to this. */
const LONGEST_PAUSE_MS = 50;

/** What a check found. */
export interface Report {
  /** answers that were compared with PostgreSQL */
  answers: number;
  /** requests that the service refused (503), so that there was nothing to compare */
  rejected: number;
  /** changes that were followed until every connection showed them */
  changes: number;
  /** of every change and connection: from the commit until it was shown */
  lagsMs: number[];
  /** a sentence for each answer that was older than the promise */
  stale: string[];
}

/**
 * Plays a cache that hears of changes, and looks whether the real ones keep what was promised: it reads hotels in
 * PostgreSQL, those that change and some that do not, and asks for them over many connections. (The idea is that
 * of Meta's Polaris: engineering.fb.com, "Cache made consistent", 2022.) It only reads.
 */
export class FreshnessChecker {
  readonly #sql: Sql;
  readonly #ear: Sql;
  readonly #askers: ServiceClient[];
  readonly #promiseMs: () => number;
  readonly report: Report = { answers: 0, rejected: 0, changes: 0, lagsMs: [], stale: [] };
  readonly #following = new Set<Promise<void>>();
  /** when a change was first seen in the queue, and nothing was told since */
  #committedAtMs: number | undefined;
  #received = 0;
  #failure: unknown;

  /** `sql` reads, `ear` is a pool that listens; `promiseMs`: how old an answer may be at present. */
  constructor(sql: Sql, ear: Sql, askers: ServiceClient[], promiseMs: () => number) {
    this.#sql = sql;
    this.#ear = ear;
    this.#askers = askers;
    this.#promiseMs = promiseMs;
  }

  /** Checks until the signal ends it. Throws a `Failure` when the service cannot be asked at all. */
  async run(signal: AbortSignal): Promise<Report> {
    const listened = () => {
      // what was told between two connections was not heard
      this.#received++;
      this.#committedAtMs = undefined;
    };
    await this.#ear.listen(FEED_CHANNEL, (payload) => this.#receive(payload, signal), listened);
    const watching = this.#watchQueue(signal);
    while (!signal.aborted) {
      const roundAtMs = performance.now();
      await this.#sample();
      const promiseMs = this.#promiseMs();
      if (this.#committedAtMs !== undefined && roundAtMs - this.#committedAtMs > promiseMs) {
        this.report.stale.push(`a change was committed and not told within ${promiseMs} ms`);
        this.#committedAtMs = undefined;
      }
      if (this.#failure) throw this.#failure;
      const restMs = Math.max(0, ROUND_MS - (performance.now() - roundAtMs));
      await new Promise((resolve) => setTimeout(resolve, restMs));
    }
    await Promise.all([watching, ...this.#following]);
    return this.report;
  }

  /** Notes when a change is in the queue: it is committed, and not told yet. */
  async #watchQueue(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const [lookedAtMs, received] = [performance.now(), this.#received];
      try {
        const [row] = await this.#sql<
          { found: boolean }[]
        >`select exists(select from hotel_api_changes) as found`;
        if (row?.found && received === this.#received) this.#committedAtMs ??= lookedAtMs;
      } catch (error) {
        this.#failure ??= error;
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
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
      const following = this.#follow(id, committedAtMs)
        .catch((error) => {
          this.#failure ??= error;
        })
        .finally(() => this.#following.delete(following));
      this.#following.add(following);
    }
  }

  /** Asks every connection for a hotel that changed until it shows what PostgreSQL says. */
  async #follow(id: string, committedAtMs: number): Promise<void> {
    const truth = new DatabaseState(this.#sql);
    await truth.look([id]);
    const lags = await Promise.all(
      this.#askers.map((asker) => this.#untilShown(asker, id, truth, committedAtMs)),
    );
    const shown = lags.filter((lagMs) => lagMs !== undefined);
    this.report.lagsMs.push(...shown);
    if (shown.length === lags.length) this.report.changes++;
  }

  /** Compares a few hotels, taken at random, on every connection. */
  async #sample(): Promise<void> {
    const ids = await this.#anyIds();
    const truth = new DatabaseState(this.#sql);
    await truth.look(ids);
    const readAtMs = performance.now();
    const compare = async (asker: ServiceClient) => {
      for (const id of ids) await this.#untilShown(asker, id, truth, readAtMs);
    };
    await Promise.all(this.#askers.map(compare));
  }

  /**
   * Asks until what is shown is what PostgreSQL has said since `sinceMs`; returns how long after it that was, or
   * undefined where the service refuses or the promise was broken, which is noted.
   */
  async #untilShown(
    asker: ServiceClient,
    id: string,
    truth: DatabaseState,
    sinceMs: number,
  ): Promise<number | undefined> {
    for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      const askedAtMs = performance.now();
      const shown = await asker.ask(id);
      const shownAtMs = performance.now();
      if (shown === undefined) {
        this.report.rejected++;
        return undefined;
      }
      this.report.answers++;
      if (await truth.isSo(id, shown)) return shownAtMs - sinceMs;
      if (askedAtMs - sinceMs > this.#promiseMs()) {
        this.report.stale.push(`hotel ${id}: older than ${Math.round(askedAtMs - sinceMs)} ms`);
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
