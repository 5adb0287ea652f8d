import { DeadlineExceeded } from './shutdown.ts';

/** A deadline is waited for in so many slices. */
const SLICES = 10;
/** After so many times the deadline it is over in any case. */
const MAX_EXTENSION = 2;

/**
 * A deadline for the answers of others. What this process itself stands still (its event loop is busy, or the
 * machine is) counts as one slice of ten, however long it is: an answer may have come and lie unread. On two cores
 * that a large UPDATE, the load and other processes shared, PostgreSQL had answered each query that was called late
 * after 500 ms; the worker had stood still for 508 of 620 ms.
 */
export class StallTolerantDeadline {
  readonly #timeoutMs: number;
  readonly #lastAtMs: number;
  readonly #over = Promise.withResolvers<never>();
  #slices = 0;
  #timer: NodeJS.Timeout | undefined;
  #look: NodeJS.Immediate | undefined;

  /** Begins now. To be ended. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#lastAtMs = performance.now() + MAX_EXTENSION * timeoutMs;
    this.#over.promise.catch(() => {});
    this.#waitOn();
  }

  /** True when the deadline has passed. */
  get over(): boolean {
    return this.#slices >= SLICES;
  }

  /** Settles as `work` does, or rejects with `DeadlineExceeded` when the deadline passes; `work` goes on unheard. */
  bound<T>(work: PromiseLike<T>): Promise<T> {
    return Promise.race([work, this.#over.promise]);
  }

  end(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#look);
  }

  #waitOn(): void {
    this.#timer = setTimeout(() => {
      // what has come meanwhile is read first
      this.#look = setImmediate(() => {
        this.#slices = performance.now() >= this.#lastAtMs ? SLICES : this.#slices + 1;
        if (this.over) this.#over.reject(new DeadlineExceeded(`not done within ${this.#timeoutMs} ms`));
        else this.#waitOn();
      });
    }, this.#timeoutMs / SLICES);
  }
}
