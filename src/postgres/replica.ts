import { Unavailable } from '../errors.ts';
import type { Lane, Postgres } from './client.ts';

/** What this worker has heard last of changes: a replica is read only where it holds at least that. */
export interface FeedPosition {
  /** of the invalidator that told it */
  term: string;
  /** counts, in the term, what it told of changes */
  count: number;
}

/** How long a replica is left alone that was found behind, at first; twice as long each time it still is. */
const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 1_000;

type GuardedRows<Row> = (
  | { reached: false }
  | { reached: true; found: null }
  | { reached: true; found: true }
) &
  Row;

/**
 * One read replica. Each read asks, in the snapshot that it takes its rows from, whether the replica holds what the
 * worker has heard of; so it need not be one server: what stands behind a balancer or a pooler may do.
 */
export class Replica {
  readonly #postgres: Postgres;
  #pauseMs = 0;
  #tryAtMs = -Infinity;
  /** when it was last found to hold all that was told */
  #reachedAtMs = performance.now();
  #reached = true;

  constructor(postgres: Postgres) {
    this.#postgres = postgres;
  }

  /** For how long it has lacked something that was told; 0 while it does not. */
  get lagMs(): number {
    return this.#reached ? 0 : performance.now() - this.#reachedAtMs;
  }

  /** False while it is left alone. After each pause one caller is sent to it, to find out. */
  mayBeAsked(): boolean {
    const nowMs = performance.now();
    if (this.#postgres.breakerOpen || nowMs < this.#tryAtMs) return false;
    if (this.#pauseMs > 0) this.#tryAtMs = nowMs + this.#pauseMs;
    return true;
  }

  /** Queries that wait for a connection. */
  get waiting(): number {
    return this.#postgres.waiting;
  }

  /** The rows of one query, or undefined where the replica lacks what was told. Throws what `Postgres` does. */
  async rows<Row>(
    text: string,
    parameters: unknown[],
    announced: FeedPosition,
    owner?: string,
    lane?: Lane,
  ): Promise<Row[] | undefined> {
    const pausedMs = this.#pauseMs;
    try {
      const rows = await this.#postgres.rows<GuardedRows<Row>>(
        guarded(text, parameters.length),
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
      // a full queue says nothing of the replica
      if (!(error instanceof Unavailable && error.rejection === 'postgres_queue')) this.#behind(pausedMs);
      throw error;
    }
  }

  /** Looks whether it holds what was told, for when nobody reads from it. */
  async look(announced: FeedPosition): Promise<void> {
    if (this.#postgres.breakerOpen) this.#reached = false;
    else await this.rows('select 1', [], announced).catch(() => {});
  }

  connected(timeoutMs: number): Promise<void> {
    return this.#postgres.connected(timeoutMs);
  }

  reconnect(finishWithinS: number): void {
    this.#postgres.reconnect(finishWithinS);
  }

  close(): Promise<void> {
    return this.#postgres.close();
  }

  #behind(pausedMs: number): void {
    this.#reached = false;
    // of many that were under way only the first counts
    if (pausedMs !== this.#pauseMs) return;
    this.#pauseMs = Math.min(Math.max(2 * pausedMs, FIRST_PAUSE_MS), LONGEST_PAUSE_MS);
    this.#tryAtMs = performance.now() + this.#pauseMs;
  }
}

/**
 * The query, with whether the replica has reached what the two parameters after its own name. All of a statement sees
 * one snapshot, which makes this exact; a position of the log that is asked for in the statement is later than it.
 */
function guarded(text: string, parameters: number): string {
  return `select mark.reached, read.* from (
      select exists (
        select from hotel_api_feed_position where term = $${parameters + 1}::text and count >= $${parameters + 2}::bigint
      ) as reached
    ) as mark left join lateral (select true as found, query.* from (${text}) as query) as read on mark.reached`;
}
