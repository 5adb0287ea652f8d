import { monotonicMs, onIteration } from './clock.ts';
import { WaitQueue } from './wait-queue.ts';

/** Time for what waits in an iteration, and for reading requests. The last piece of work may exceed it. */
export const BUDGET_MS = 10;
/** Minimum time between iterations that responses measure, because each costs a callback. */
const MEASURED_EVERY_MS = 1;
/** Work of an owner before the next one, as the bytes of a batch body that take as long: a batch of 1000. */
export const QUANTUM_BYTES = 16 * 1024;
/** Initial estimate: a batch of 1000 from the local cache. */
export const FIRST_MS_PER_BYTE = 0.3 / 13_000;

/**
 * Divides the work of a worker among the iterations of its event loop. What can wait does so in one queue, whose owners are
 * served by deficit round robin: batches, pages, loads that continue, compression. Each piece of work has a turn, and an
 * iteration has as many turns as fit into its budget. A response that is made while its request is read waits only if reading
 * has used up the budget: the HTTP library processes a received chunk of up to 512 KiB of requests before those of other
 * connections. What waits gets its budget in each iteration, or many cheap requests would starve it. So a request is read after
 * two budgets of other work at most. Not in this queue, and without a budget, is work in pieces of bounded size, each in its own
 * iteration: parts of batches of large hotels, members of collections, and the end of waits for changes.
 */
export class EventLoop {
  /** work that waits for its turn, with sizes in bytes */
  readonly waiting = new WaitQueue<(nowMs: number) => void>(FIRST_MS_PER_BYTE, QUANTUM_BYTES);
  /** start of the reading of requests in the iteration that was measured last */
  #beganMs = -Infinity;
  /** time that waiting work took before that */
  #spentMs = 0;
  /** true until the measured iteration is over */
  #isMeasured = false;

  /** Returns true if the responses of this iteration have used it up. `nowMs`: start of a request. */
  isUsedUp(nowMs: number): boolean {
    return this.#measure(nowMs) && nowMs - this.#beganMs > BUDGET_MS;
  }

  /** Returns true if work may be done now: none waits, and this iteration has time left. */
  hasTime(nowMs: number): boolean {
    if (this.waiting.length > 0) return false;
    return !this.#measure(nowMs) || this.#spentMs + nowMs - this.#beganMs < BUDGET_MS;
  }

  /** Lets work wait for its turn, which receives the time. It must not throw. */
  append(owner: string, workBytes: number, work: (nowMs: number) => void, nowMs = monotonicMs()): void {
    this.waiting.append(owner, work, workBytes, nowMs);
    if (!this.#isMeasured) this.#begin(nowMs);
  }

  /** Runs work now or in its turn. Settles as it does. */
  run<T>(owner: string, workBytes: number, work: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const settle = () => {
      try {
        resolve(work());
      } catch (error) {
        reject(error);
      }
    };
    const nowMs = monotonicMs();
    if (this.hasTime(nowMs)) settle();
    else this.append(owner, workBytes, settle, nowMs);
    return promise;
  }

  /** Measures this iteration; false: it began less than a millisecond ago, and need not be measured. */
  #measure(nowMs: number): boolean {
    if (this.#isMeasured) return true;
    if (nowMs - this.#beganMs < MEASURED_EVERY_MS) return false;
    this.#begin(nowMs);
    return true;
  }

  #begin(nowMs: number): void {
    this.#beganMs = nowMs;
    if (this.#isMeasured) return;
    this.#isMeasured = true;
    onIteration(this.#serve);
  }

  /** Serves what waits, after requests were read, and before the next ones are. */
  readonly #serve = (): void => {
    this.#isMeasured = false;
    this.#spentMs = 0;
    if (this.waiting.length === 0) return;
    const beganMs = monotonicMs();
    let nowMs = beganMs;
    do {
      this.waiting.shift()!.item(nowMs);
      nowMs = monotonicMs();
    } while (this.waiting.length > 0 && nowMs - beganMs < BUDGET_MS);
    this.waiting.measure(nowMs);
    this.#spentMs = nowMs - beganMs;
    this.#begin(nowMs);
  };
}

/** Returns the size, as of `QUANTUM_BYTES`, of encoding, assembling or sending this many bytes. */
export function workOf(bodyBytes: number): number {
  return 512 + bodyBytes / 32;
}
