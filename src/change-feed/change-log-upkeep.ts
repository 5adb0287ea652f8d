/** Interval of deletions while more rows are to be deleted. */
const PRUNE_AGAIN_MS = 1_000;
const PRUNE_EVERY_MS = 60_000;
/** Pause after an error of PostgreSQL, for example a lock timeout. */
const RETRY_MS = 1_000;
/** Number of rows from which on a call of `hotel_api_prune_change_log` may have left some. */
const PIECE = 1_000;

/** Decides when the change log needs maintenance: see sql/006-change-log.sql. */
export class ChangeLogUpkeep {
  /** the day whose changes of certification are logged */
  #loggedDay = '';
  #flipsFromMs = -Infinity;
  #pruneFromMs = performance.now() + PRUNE_EVERY_MS * Math.random();

  /** Returns the day (UTC, YYYY-MM-DD) whose changes of `certified` must be logged now; undefined: none. */
  get dayToLog(): string | undefined {
    const today = new Date().toISOString().slice(0, 10);
    return today === this.#loggedDay || performance.now() < this.#flipsFromMs ? undefined : today;
  }

  /** Records that the changes of this day were logged; false: not all of them. */
  logged(day: string, all: boolean): void {
    if (all) this.#loggedDay = day;
  }

  flipsFailed(): void {
    this.#flipsFromMs = performance.now() + RETRY_MS;
  }

  get mustPrune(): boolean {
    return performance.now() >= this.#pruneFromMs;
  }

  /** Records the number of deleted rows; undefined: the deletion failed. */
  pruned(rows: number | undefined): void {
    const isMore = rows === undefined || rows >= PIECE;
    this.#pruneFromMs = performance.now() + (isMore ? PRUNE_AGAIN_MS : PRUNE_EVERY_MS);
  }
}
