/** Maximum processor time of the responses of one event-loop iteration. */
const MAX_TICK_MS = 15;
/** Number of responses between two readings of the clock. */
const RESPONSES_PER_CHECK = 64;

/**
 * Limits the responses of one event-loop iteration. The HTTP library processes a received chunk of up to 512 KiB
 * before other connections get their turn. It does not identify the connection of a request, so the time of the whole
 * iteration counts. Other threads and processes do not count.
 */
export class TickBudget {
  #responses = 0;
  #beganMs: number | undefined;
  #isOver = false;

  /**
   * Counts a response that is made while its request is read. 'last': the budget is used up, most likely by its
   * connection. 'later': the response waits for the next iteration.
   */
  take(): 'within' | 'last' | 'later' {
    if (this.#isOver) return 'later';
    return ++this.#responses % RESPONSES_PER_CHECK === 0 && this.#usedUp() ? 'last' : 'within';
  }

  #usedUp(): boolean {
    const nowMs = processorMs();
    if (this.#beganMs === undefined) {
      this.#beganMs = nowMs;
      setImmediate(this.#end);
    }
    this.#isOver = nowMs - this.#beganMs > MAX_TICK_MS;
    return this.#isOver;
  }

  readonly #end = (): void => {
    this.#beganMs = undefined;
    this.#isOver = false;
  };
}

function processorMs(): number {
  // Node 22.18 knows the processor time of the whole process only
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage();
  return (user + system) / 1000;
}
