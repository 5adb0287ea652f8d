import { clearTimer, every, setTimer, type Timer } from '../lib/clock.ts';
import type { Shutdown } from '../lib/shutdown.ts';

/** Timers of a process, which end with it. */
export class Timers {
  readonly #repeated: Timer[] = [];
  readonly #single = new Map<string, Timer>();

  constructor(shutdown: Shutdown) {
    shutdown.push('timers', () => {
      for (const timer of [...this.#repeated, ...this.#single.values()]) clearTimer(timer);
    });
  }

  repeat(callback: () => void, intervalMs: number): void {
    this.#repeated.push(every(callback, intervalMs));
  }

  /** Runs the callback once, in place of one of this name that is pending. */
  once(name: string, callback: () => void, delayMs: number): void {
    clearTimer(this.#single.get(name));
    this.#single.set(name, setTimer(callback, delayMs));
  }
}
