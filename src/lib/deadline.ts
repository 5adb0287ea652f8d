import { cancelIteration, clearTimer, onIteration, setTimer, type Timer } from './clock.ts';

/** Bounds waiting for another process, in several steps. */
export class Deadline {
  readonly #over = Promise.withResolvers<never>();
  readonly #timer: Timer;
  #check: Timer | undefined;

  /** Starts the deadline. `end` must be called. */
  constructor(timeoutMs: number) {
    this.#over.promise.catch(() => {});
    this.#timer = setTimer(() => {
      // a result that arrived in time is read first
      this.#check = onIteration(() =>
        this.#over.reject(new DeadlineExceeded(`not done within ${Math.round(timeoutMs)} ms`)),
      );
    }, timeoutMs);
  }

  /** Settles as `work` does, or rejects with `DeadlineExceeded` when the deadline passes. `work` itself is not cancelled. */
  bound<T>(work: PromiseLike<T>): Promise<T> {
    return Promise.race([work, this.#over.promise]);
  }

  end(): void {
    clearTimer(this.#timer);
    cancelIteration(this.#check);
  }
}

export class DeadlineExceeded extends Error {
  override name = 'DeadlineExceeded';
}

/** Settles as `work` does, or rejects with `DeadlineExceeded` after `deadlineMs`. `work` itself is not cancelled. */
export async function withDeadline<T>(work: PromiseLike<T>, deadlineMs: number): Promise<T> {
  const deadline = new Deadline(deadlineMs);
  try {
    return await deadline.bound(work);
  } finally {
    deadline.end();
  }
}
