import { DeadlineExceeded } from './shutdown.ts';

/** Number of slices that a deadline is divided into. */
const SLICES = 10;
/** Event-loop stalls extend a deadline to at most this multiple. */
const MAX_EXTENSION = 2;

/**
 * Deadline for replies of other processes. An event-loop stall of any length counts as one slice of ten, because a
 * reply may have arrived unread. Stalls extend the deadline, at most to twice its value.
 */
export class StallTolerantDeadline {
  readonly #timeoutMs: number;
  readonly #lastAtMs: number;
  readonly #over = Promise.withResolvers<never>();
  #slices = 0;
  #timer: NodeJS.Timeout | undefined;
  #check: NodeJS.Immediate | undefined;

  /** Starts the deadline; the caller must call `end`. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#lastAtMs = performance.now() + MAX_EXTENSION * timeoutMs;
    this.#over.promise.catch(() => {});
    this.#waitSlice();
  }

  /** True when the deadline has passed. */
  get over(): boolean {
    return this.#slices >= SLICES;
  }

  /** Settles as `work` does, or rejects with `DeadlineExceeded` when the deadline passes; `work` itself continues. */
  bound<T>(work: PromiseLike<T>): Promise<T> {
    return Promise.race([work, this.#over.promise]);
  }

  end(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#check);
  }

  #waitSlice(): void {
    this.#timer = setTimeout(() => {
      // results that arrived meanwhile are read first
      this.#check = setImmediate(() => {
        this.#slices = performance.now() >= this.#lastAtMs ? SLICES : this.#slices + 1;
        if (this.over) this.#over.reject(new DeadlineExceeded(`not done within ${this.#timeoutMs} ms`));
        else this.#waitSlice();
      });
    }, this.#timeoutMs / SLICES);
  }
}
