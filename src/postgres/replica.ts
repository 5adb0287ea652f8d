import { Unavailable } from '../errors.ts';
import type { Lane, Postgres } from './client.ts';

/** Last received position: a replica is used only if it holds at least that. */
export interface FeedPosition {
  /** term that announced it */
  term: string;
  /** number of announcements in the term */
  count: number;
}

/** First pause after a replica was found behind; it doubles each time it still is. */
const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 1_000;

/** Row with the position check. `found` is null in the only row if the query returns none. */
type CheckedRow<Row> = { reached: boolean; found: true | null } & Row;

/**
 * Reads from one replica. Each read checks, in the snapshot of its rows, whether the replica has reached the position
 * of the worker. A balancer or pooler in front of several servers is therefore allowed.
 */
export class Replica {
  readonly postgres: Postgres;
  #pauseMs = 0;
  #tryAtMs = -Infinity;
  /** last time at which it held every announced change */
  #reachedAtMs = performance.now();
  #reached = true;

  constructor(postgres: Postgres) {
    this.postgres = postgres;
  }

  /** Returns the time in ms for which it has lacked an announced change; 0 if it lacks none. */
  get lagMs(): number {
    return this.#reached ? 0 : performance.now() - this.#reachedAtMs;
  }

  /** Returns false during a pause. After each pause one caller is sent to the replica as a probe. */
  mayBeRead(): boolean {
    const nowMs = performance.now();
    if (this.postgres.breakerOpen || nowMs < this.#tryAtMs) return false;
    if (this.#pauseMs > 0) this.#tryAtMs = nowMs + this.#pauseMs;
    return true;
  }

  /**
   * Returns the rows of one query, or undefined if the replica lacks an announced change. Throws what `Postgres`
   * throws.
   */
  async rows<Row>(
    text: string,
    parameters: unknown[],
    announced: FeedPosition,
    owner?: string,
    lane?: Lane,
  ): Promise<Row[] | undefined> {
    const pausedMs = this.#pauseMs;
    try {
      const rows = await this.postgres.rows<CheckedRow<Row>>(
        withPositionCheck(text, parameters.length),
        [...parameters, announced.term, announced.count],
        owner,
        lane,
      );
      if (!rows[0]!.reached) {
        this.#behind(pausedMs);
        return undefined;
      }
      this.#reached = true;
      this.#reachedAtMs = performance.now();
      this.#pauseMs = 0;
      this.#tryAtMs = -Infinity;
      return rows[0]!.found ? rows : [];
    } catch (error) {
      // a full queue says nothing about the replica
      if (!(error instanceof Unavailable && error.rejection === 'postgres_queue')) this.#behind(pausedMs);
      throw error;
    }
  }

  /** Checks its position while no request reads from it. */
  async check(announced: FeedPosition): Promise<void> {
    if (this.postgres.breakerOpen) this.#reached = false;
    else await this.rows('select 1', [], announced).catch(() => {});
  }

  #behind(pausedMs: number): void {
    this.#reached = false;
    // of several concurrent reads only the first counts
    if (pausedMs !== this.#pauseMs) return;
    this.#pauseMs = Math.min(Math.max(2 * pausedMs, FIRST_PAUSE_MS), LONGEST_PAUSE_MS);
    this.#tryAtMs = performance.now() + this.#pauseMs;
  }
}

/**
 * Adds to a query whether the replica has reached the two parameters after its own. A statement has one snapshot,
 * which makes this exact; a position queried in the statement is later than it.
 */
function withPositionCheck(text: string, parameters: number): string {
  return `select mark.reached, read.* from (
      select exists (
        select from hotel_api_feed_position where term = $${parameters + 1}::text and count >= $${parameters + 2}::bigint
      ) as reached
    ) as mark left join lateral (select true as found, query.* from (${text}) as query) as read on mark.reached`;
}
