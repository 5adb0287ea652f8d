import { isQueueFull } from '../errors.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { Postgres } from './client.ts';
import { type Applied, type Labelled, type Query, readLabelled } from './label.ts';

/** First pause after a replica was found behind; it doubles each time it still is. */
const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 1_000;

/**
 * Reads from one replica, with labels. Each read compares its own label, so a balancer or pooler in front of several
 * servers is allowed.
 */
export class Replica {
  readonly postgres: Postgres;
  readonly #applied: () => Applied | undefined;
  #pauseMs = 0;
  #tryAtMs = -Infinity;
  /** last time at which it held every applied change */
  #reachedAtMs = monotonicMs();
  #reached = true;

  constructor(postgres: Postgres, applied: () => Applied | undefined) {
    this.postgres = postgres;
    this.#applied = applied;
  }

  /** Returns the time in ms for which it has lacked an applied change; 0 if it lacks none. */
  get lagMs(): number {
    return this.#reached ? 0 : monotonicMs() - this.#reachedAtMs;
  }

  /** Returns false during a pause. After each pause one caller is sent to the replica as a probe. */
  mayBeRead(): boolean {
    const nowMs = monotonicMs();
    if (this.postgres.breakerOpen || nowMs < this.#tryAtMs) return false;
    if (this.#pauseMs > 0) this.#tryAtMs = nowMs + this.#pauseMs;
    return true;
  }

  /** Returns the rows of one query, or undefined if the replica is behind. Throws what `Postgres` throws. */
  async read<Row>(...query: Query): Promise<Labelled<Row> | undefined> {
    const pausedMs = this.#pauseMs;
    try {
      const read = await readLabelled<Row>(this.postgres, this.#applied, ...query);
      if (!read) {
        this.#behind(pausedMs);
        return undefined;
      }
      this.#reached = true;
      this.#reachedAtMs = monotonicMs();
      this.#pauseMs = 0;
      this.#tryAtMs = -Infinity;
      return read;
    } catch (error) {
      // a full queue says nothing about the replica
      if (!isQueueFull(error)) this.#behind(pausedMs);
      throw error;
    }
  }

  /** Compares its label while no request reads from it. */
  async check(): Promise<void> {
    if (this.postgres.breakerOpen) this.#reached = false;
    else await this.read('select 1', []).catch(() => {});
  }

  #behind(pausedMs: number): void {
    this.#reached = false;
    // of several concurrent reads only the first counts
    if (pausedMs !== this.#pauseMs) return;
    this.#pauseMs = Math.min(Math.max(2 * pausedMs, FIRST_PAUSE_MS), LONGEST_PAUSE_MS);
    this.#tryAtMs = monotonicMs() + this.#pauseMs;
  }
}
