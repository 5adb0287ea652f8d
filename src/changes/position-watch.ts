/** So many of those that wait go on in one iteration of the event loop: other requests are answered in between. */
const WOKEN_AT_ONCE = 100;

interface Waiter {
  position: number;
  timer: NodeJS.Timeout;
  wake: () => void;
}

/** Something that is waited for. */
export interface Wait {
  over: Promise<void>;
  /** Ends it now. */
  cancel: () => void;
}

/** Knows up to which position the change log was announced to this worker, and wakes those that wait for a later one. */
export class PositionWatch {
  readonly #isLinked: () => boolean;
  #history = '';
  /** undefined: not known yet */
  #position: number | undefined;
  readonly #waiters = new Set<Waiter>();
  #isReleased = false;

  /** `isLinked`: false when positions may have been announced that this worker does not know. */
  constructor(isFeedUp: () => boolean) {
    this.#isLinked = isFeedUp;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  /** Positions up to which nothing that was announced lies beyond this one; 0 where that is not known. */
  behind(position: number): number {
    return Math.max(0, (this.#position ?? position) - position);
  }

  /** The last position, as it was announced. */
  announced(position: number): void {
    this.#position = position;
    this.#wake((waiter) => waiter.position < position);
  }

  /** From now on positions are those of this history. */
  follow(history: string): void {
    this.#history = history;
    this.#position = undefined;
    this.#wake(() => true);
  }

  /** True where no change after this position was announced. */
  isLast(history: string, position: number): boolean {
    return (
      this.#position !== undefined &&
      position >= this.#position &&
      history === this.#history &&
      this.#isLinked()
    );
  }

  /** Waits until a later position is announced, at most so long. */
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

  /** Ends every wait, also those that are still to begin: the worker ends. */
  release(): void {
    this.#isReleased = true;
    this.#wake(() => true);
  }

  get isReleased(): boolean {
    return this.#isReleased;
  }

  #wake(isMeant: (waiter: Waiter) => boolean): void {
    const meant = [...this.#waiters].filter(isMeant);
    const goOn = (from: number) => {
      for (const waiter of meant.slice(from, from + WOKEN_AT_ONCE)) waiter.wake();
      if (from + WOKEN_AT_ONCE < meant.length) setImmediate(goOn, from + WOKEN_AT_ONCE);
    };
    goOn(0);
  }
}
