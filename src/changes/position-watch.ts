import { clearTimer, onIteration, setTimer, type Timer } from '../lib/clock.ts';
import type { Freshness } from '../log/freshness.ts';
import type { LogCursor } from '../log/log-connection.ts';

/**
 * Maximum number of waiting clients that continue in one event-loop iteration, so that other requests are answered in
 * between.
 */
const WOKEN_AT_ONCE = 100;
/** Delay after which clients continue whose keys may have changed, so that many changes of keys wake them once. */
const KEYS_WAIT_MS = 250;

/** Returns false for the position of a wait that only its time ends. */
const isForChange = (position: number) => position < Infinity;

/** Tracks the last applied position of the log, and wakes waits for a later one. */
export class PositionWatch {
  /** tells whether later positions may be unknown */
  readonly freshness: Pick<Freshness, 'isCurrent' | 'isCurrentFor'>;
  #history = '';
  /** undefined: unknown */
  #cursor: LogCursor | undefined;
  #isListing = false;
  #keysTimer: Timer | undefined;
  /** what ends each wait, and the position that it is for */
  readonly #waits = new Map<() => void, number>();
  /** true: the worker ends, and no wait begins */
  isReleased = false;

  constructor(freshness: Pick<Freshness, 'isCurrent' | 'isCurrentFor'>) {
    this.freshness = freshness;
  }

  /** Number of waits for a change in progress. */
  get waiting(): number {
    return [...this.#waits.values()].filter(isForChange).length;
  }

  /** Returns the number of applied positions after this one; 0 if unknown. */
  behind(position: number): number {
    return Math.max(0, (this.#cursor?.position ?? position) - position);
  }

  /**
   * Records the last applied cursor, and wakes the waits for its position. `isListing`: ids of changes that have committed are
   * still being listed, behind it.
   */
  announced(cursor: LogCursor, isListing: boolean): void {
    this.#cursor = cursor;
    this.#isListing = isListing;
    this.#wake((position) => position < cursor.position);
  }

  /** Wakes the waits for a change within a moment: their keys may see something else. */
  keysChanged(): void {
    if (this.isReleased) return;
    this.#keysTimer ??= setTimer(() => {
      this.#keysTimer = undefined;
      this.#wake(isForChange);
    }, KEYS_WAIT_MS);
  }

  /** Uses positions of this history from now on. */
  follow(history: string): void {
    this.#history = history;
    this.#cursor = undefined;
    this.#isListing = false;
    this.#wake(isForChange);
  }

  /**
   * Returns true if no change after this cursor is known, and none is still being listed. A later cursor must be compared with
   * the log: it may belong to a lost future.
   */
  isLast({ history, position, transaction }: LogCursor & { history: string }): boolean {
    return (
      position === this.#cursor?.position &&
      transaction === this.#cursor.transaction &&
      !this.#isListing &&
      history === this.#history &&
      this.freshness.isCurrent()
    );
  }

  /**
   * Waits until a later position is applied, or keys change, at most for this time. Position Infinity: for the time alone.
   */
  laterThan(position: number, timeoutMs: number): { over: Promise<void>; cancel: () => void } {
    const isKnown = this.#cursor !== undefined && this.#cursor.position > position;
    if (isKnown || this.isReleased || timeoutMs <= 0) return { over: Promise.resolve(), cancel: () => {} };
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = () => {
      clearTimer(timer);
      this.#waits.delete(wake);
      resolve();
    };
    const timer = setTimer(wake, timeoutMs);
    this.#waits.set(wake, position);
    return { over: promise, cancel: wake };
  }

  /** Ends every wait, later ones included, when the worker ends. */
  release(): void {
    this.isReleased = true;
    clearTimer(this.#keysTimer);
    this.#wake(() => true);
  }

  #wake(matches: (position: number) => boolean): void {
    const woken = [...this.#waits].filter(([, position]) => matches(position));
    const wakeFrom = (from: number) => {
      for (const [wake] of woken.slice(from, from + WOKEN_AT_ONCE)) wake();
      if (from + WOKEN_AT_ONCE < woken.length) onIteration(() => wakeFrom(from + WOKEN_AT_ONCE));
    };
    wakeFrom(0);
  }
}
