import { cancelIteration, clearTimer, monotonicMs, onIteration, setTimer, type Timer } from './clock.ts';

const SLICES = 10;
/** Factor by which stalls extend a deadline at most. */
const MAX_EXTENSION = 2;

/**
 * Bounds waiting for another process. Event-loop stalls extend it, at most to twice its value. A stall counts as one
 * slice of ten, however long it is, because a response may have arrived unread.
 */
export class StallTolerantDeadline {
  readonly #timeoutMs: number;
  #lastAtMs = 0;
  readonly #over = Promise.withResolvers<never>();
  #slices = 0;
  #slicedAtMs = monotonicMs();
  #stalled = false;
  #timer: Timer | undefined;
  #check: Timer | undefined;

  /** Starts the deadline, in milliseconds. `end` must be called. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.restart();
    this.#over.promise.catch(() => {});
    this.#schedule();
  }

  get over(): boolean {
    return this.#slices >= SLICES;
  }

  /** Allows the whole time again, unless the deadline has passed. */
  restart(): void {
    this.#lastAtMs = monotonicMs() + MAX_EXTENSION * this.#timeoutMs;
    if (!this.over) this.#slices = 0;
  }

  /** Settles as `work` does, or rejects with `DeadlineExceeded` when the deadline passes. `work` itself is not cancelled. */
  bound<T>(work: PromiseLike<T>): Promise<T> {
    return Promise.race([work, this.#over.promise]);
  }

  end(): void {
    clearTimer(this.#timer);
    cancelIteration(this.#check);
  }

  #schedule(): void {
    this.#timer = setTimer(() => {
      // responses that arrived meanwhile are read first
      this.#check = onIteration(() => {
        const nowMs = monotonicMs();
        if (nowMs - this.#slicedAtMs > this.#timeoutMs) this.#stalled = true;
        this.#slicedAtMs = nowMs;
        this.#slices = nowMs >= this.#lastAtMs ? SLICES : this.#slices + 1;
        if (!this.over) this.#schedule();
        else this.#over.reject(new DeadlineExceeded(`not done within ${this.#timeoutMs} ms`, this.#stalled));
      });
    }, this.#timeoutMs / SLICES);
  }
}

export class DeadlineExceeded extends Error {
  override name = 'DeadlineExceeded';
  /** this process stalled for longer than the deadline, so it is unknown whether the other one was silent */
  readonly stalled: boolean;

  constructor(message: string, stalled = false) {
    super(message);
    this.stalled = stalled;
  }
}

/**
 * Settles as `work` does, or rejects with `DeadlineExceeded` after `deadlineMs`. `work` itself is not cancelled. A result that
 * arrived during an event-loop stall is read before the deadline is applied.
 */
export function withDeadline<T>(work: Promise<T>, deadlineMs: number): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  let check: Timer | undefined;
  const timer = setTimer(() => {
    check = onIteration(() => reject(new DeadlineExceeded(`not done within ${Math.round(deadlineMs)} ms`)));
  }, deadlineMs);
  work.then(resolve, reject).finally(() => {
    clearTimer(timer);
    cancelIteration(check);
  });
  return promise;
}
