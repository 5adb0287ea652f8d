/** A piece of the log is deleted this often while there is more to delete. */
const PRUNE_AGAIN_MS = 1_000;
const PRUNE_EVERY_MS = 60_000;
/** What PostgreSQL rejected, a lock that was not had in time for one, is tried again after this time. */
const RETRY_MS = 1_000;
/** What `hotel_api_prune_change_log` deletes in one call at most. */
const PIECE = 1_000;

/** Knows when the change log needs more than the changes that are written to it: see sql/007-change-log.sql. */
export class ChangeLogUpkeep {
  /** the day whose flips the log holds */
  #loggedDay = '';
  #flipsFromMs = -Infinity;
  #pruneFromMs = performance.now() + PRUNE_EVERY_MS * Math.random();

  /** The day in UTC, as YYYY-MM-DD, whose flips of `certified` are to be logged now; undefined: none is. */
  get dayToLog(): string | undefined {
    const today = new Date().toISOString().slice(0, 10);
    return today === this.#loggedDay || performance.now() < this.#flipsFromMs ? undefined : today;
  }

  /** Notes that flips of this day were logged; false: not all of them yet. */
  logged(day: string, all: boolean): void {
    if (all) this.#loggedDay = day;
  }

  flipsFailed(): void {
    this.#flipsFromMs = performance.now() + RETRY_MS;
  }

  get mustPrune(): boolean {
    return performance.now() >= this.#pruneFromMs;
  }

  /** Notes how many rows were deleted; undefined: it failed. */
  pruned(rows: number | undefined): void {
    const isMore = rows === undefined || rows === PIECE;
    this.#pruneFromMs = performance.now() + (isMore ? PRUNE_AGAIN_MS : PRUNE_EVERY_MS);
  }
}
