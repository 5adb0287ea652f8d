/**
 * A gap this long is a pause. Iterations of the event loop are normally shorter, and so are the stops of a process whose
 * CPU is limited: Linux divides the limit into periods of 100 ms (CFS bandwidth control), and such a process is slow.
 */
const PAUSE_MS = 100;
/** Pauses that are left out at most, and the share of later time by which this is regained. */
const MAX_ALLOWANCE_MS = 1_000;
const REGAINED = 0.05;

/**
 * Measures the pauses of the process, as a busy host causes them, so that waits can be judged without them. A process
 * that pauses for over a twentieth of the time is slow rather than paused: its pauses are soon left in. Times are those
 * of `performance.now()`.
 */
export class Pauses {
  #lastMs = 0;
  #allowanceMs = MAX_ALLOWANCE_MS;
  #totalMs = 0;

  /** Begins to observe: the time until now was no pause. */
  begin(nowMs: number): void {
    this.#regain(nowMs - this.#lastMs);
    this.#lastMs = nowMs;
  }

  /**
   * Returns the time without pauses: `nowMs` less all pauses so far. Must be called in every event-loop iteration after
   * `begin`, because a longer gap between two calls is a pause.
   */
  without(nowMs: number): number {
    const gapMs = nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    if (gapMs < PAUSE_MS) this.#regain(gapMs);
    else {
      const pauseMs = Math.min(gapMs, this.#allowanceMs);
      this.#allowanceMs -= pauseMs;
      this.#totalMs += pauseMs;
    }
    return nowMs - this.#totalMs;
  }

  #regain(ms: number): void {
    this.#allowanceMs = Math.min(MAX_ALLOWANCE_MS, this.#allowanceMs + REGAINED * ms);
  }
}
