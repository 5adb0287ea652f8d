/**
 * Maximum number of waiting clients that continue in one event-loop iteration, so that other requests are answered in
 * between.
 */
const WOKEN_AT_ONCE = 100;

interface Waiter {
  position: number;
  timer: NodeJS.Timeout;
  wake: () => void;
}

/** Returns false for a wait that only its time ends. */
function isForChange({ position }: Waiter): boolean {
  return position < Infinity;
}

interface Wait {
  over: Promise<void>;
  cancel: () => void;
}

/** Tracks the last announced position in the change log, and wakes waits for a later one. */
export class PositionWatch {
  /** returns false if announcements may be missed */
  readonly isUp: () => boolean;
  #history = '';
  /** undefined: unknown */
  #position: number | undefined;
  readonly #waiters = new Set<Waiter>();
  #isReleased = false;

  constructor(isFeedUp: () => boolean) {
    this.isUp = isFeedUp;
  }

  /** Number of waits for a change in progress. */
  get waiting(): number {
    return [...this.#waiters].filter(isForChange).length;
  }

  /** Returns the number of announced positions after this one; 0 if unknown. */
  behind(position: number): number {
    return Math.max(0, (this.#position ?? position) - position);
  }

  /** Records the last announced position, and wakes the waits for it. */
  announced(position: number): void {
    this.#position = position;
    this.#wake((waiter) => waiter.position < position);
  }

  /** Uses positions of this history from now on. */
  follow(history: string): void {
    this.#history = history;
    this.#position = undefined;
    this.#wake(isForChange);
  }

  /** Returns true if no change after this position was announced. */
  isLast(history: string, position: number): boolean {
    return (
      this.#position !== undefined && position >= this.#position && history === this.#history && this.isUp()
    );
  }

  /** Waits for the announcement of a later position, at most for this time. Position Infinity: for the time alone. */
  laterThan(position: number, timeoutMs: number): Wait {
    const isKnown = this.#position !== undefined && this.#position > position;
    if (isKnown || this.#isReleased || timeoutMs <= 0) return { over: Promise.resolve(), cancel: () => {} };
    const { promise, resolve } = Promise.withResolvers<void>();
    const end = () => {
      clearTimeout(waiter.timer);
      this.#waiters.delete(waiter);
      resolve();
    };
    const waiter: Waiter = { position, timer: setTimeout(end, timeoutMs), wake: end };
    this.#waiters.add(waiter);
    return { over: promise, cancel: end };
  }

  /** Ends every wait, later ones included, when the worker ends. */
  release(): void {
    this.#isReleased = true;
    this.#wake(() => true);
  }

  get isReleased(): boolean {
    return this.#isReleased;
  }

  #wake(matches: (waiter: Waiter) => boolean): void {
    const woken = [...this.#waiters].filter(matches);
    const wakeFrom = (from: number) => {
      for (const waiter of woken.slice(from, from + WOKEN_AT_ONCE)) waiter.wake();
      if (from + WOKEN_AT_ONCE < woken.length) setImmediate(wakeFrom, from + WOKEN_AT_ONCE);
    };
    wakeFrom(0);
  }
}
