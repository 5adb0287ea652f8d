/** What the answers of one turn of the event loop may take of the processor. */
const MAX_TICK_MS = 15;
/** The time is looked at once in so many answers. */
const ANSWERS_PER_CHECK = 64;

/**
 * Bounds the answers that are made in one turn of the event loop. The HTTP library hands over all requests of a chunk
 * that it received, up to 512 KiB, before any other connection has its turn. It does not tell which connection a
 * request came on, so the time of the whole turn counts; other threads and processes do not count.
 */
export class TickBudget {
  #answers = 0;
  #beganMs: number | undefined;
  #isOver = false;

  /**
   * To be called for each answer that is made as its request is read. 'last': it has used the turn up, most likely
   * because its connection has; 'later': it has to wait for the next turn.
   */
  take(): 'within' | 'last' | 'later' {
    if (this.#isOver) return 'later';
    return ++this.#answers % ANSWERS_PER_CHECK === 0 && this.#usedUp() ? 'last' : 'within';
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
  // Node 22.18 knows the time of the whole process only
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage();
  return (user + system) / 1000;
}
