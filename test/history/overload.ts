const WINDOW_MS = 30_000;
/** Total of the stalls in a window from which on the machine counts as overloaded. */
const MAX_MS = 3_000;

/**
 * Detects an overloaded machine by the stalls of one process. Connections and queries time out then, even to healthy
 * servers, and no promise can be checked.
 */
export class Overload {
  #stalls: { fromMs: number; untilMs: number }[] = [];

  /** Notes a stall; they are noted in their order. */
  stalled(fromMs: number, untilMs: number): void {
    this.#stalls.push({ fromMs, untilMs });
  }

  isAt(atMs: number): boolean {
    const within = this.#stalls.filter(({ untilMs }) => untilMs > atMs - WINDOW_MS && untilMs <= atMs);
    return within.reduce((sum, { fromMs, untilMs }) => sum + untilMs - fromMs, 0) >= MAX_MS;
  }
}
