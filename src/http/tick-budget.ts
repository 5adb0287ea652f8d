import { onIteration } from '../lib/clock.ts';

/** Maximum processor time of the responses of one event-loop iteration. */
const MAX_TICK_MS = 15;
/** Work between two readings of the clock, in about bytes: 128 small responses, or five pages of 100. */
const WORK_PER_CHECK = 512 * 1024;
/** Work of a response besides its bytes, and of one without a body, which may have been made to find its tag. */
const WORK_PER_RESPONSE = 4 * 1024;
const WORK_WITHOUT_BODY = 8 * 1024;
/** Work of reading one character of a path, a query or a header, at most: 40 ns. */
const WORK_PER_CHARACTER = 16;
/** Bytes that were compressed to one. */
const COMPRESSED_FROM = 8;

/**
 * Limits the requests and responses of one event-loop iteration. The HTTP library processes a received chunk of up to 512 KiB
 * before other connections get their turn. It does not identify the connection of a request, so the time of the whole
 * iteration counts. Other threads and processes do not count.
 */
export class TickBudget {
  /** about the bytes of the responses, and what was parsed for them, since the clock was read */
  #work = 0;
  #beganMs: number | undefined;
  #isOver = false;

  /** Counts the parsing of so many characters. */
  parsed(characters: number): void {
    this.#work += WORK_PER_CHARACTER * characters;
  }

  /**
   * Counts a response of this many bytes, undefined: without a body, that is made while its request is read. 'last': the
   * budget is used up, most likely by its connection. 'later': the response waits for the next iteration.
   */
  take(bytes: number | undefined, isCompressed: boolean): 'within' | 'last' | 'later' {
    if (this.#isOver) return 'later';
    if (bytes === undefined) this.#work += WORK_WITHOUT_BODY;
    else this.#work += WORK_PER_RESPONSE + (isCompressed ? COMPRESSED_FROM * bytes : bytes);
    if (this.#work < WORK_PER_CHECK) return 'within';
    this.#work = 0;
    return this.#usedUp() ? 'last' : 'within';
  }

  #usedUp(): boolean {
    const nowMs = processorMs();
    if (this.#beganMs === undefined) {
      this.#beganMs = nowMs;
      onIteration(this.#end);
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
