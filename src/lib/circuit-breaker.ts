import { clearTimer, setTimer, type Timer } from './clock.ts';

/** Callback after each call of a dependency, probes included. */
export type OnCall = (seconds: number, succeeded: boolean) => void;

/**
 * Number of failed calls in a row after which a breaker opens. One late response is not an outage, and while PostgreSQL is
 * unavailable Redis is the only tier.
 */
const FAILURES_TO_OPEN = 3;
const PROBE_EVERY_MS = 200;

/**
 * Circuit breaker. It opens after three failures without a success between them. While it is open, a probe runs five times a
 * second, so that no client request is spent on detecting the recovery.
 */
export class CircuitBreaker {
  readonly #probe: () => Promise<unknown>;
  readonly #onChange: (open: boolean, reason: string) => void;
  #failures = 0;
  #open = false;
  #timer: Timer | undefined;
  /** number of the latest probe */
  #probes = 0;
  #stopped = false;

  constructor(probe: () => Promise<unknown>, onChange: (open: boolean, reason: string) => void) {
    this.#probe = probe;
    this.#onChange = onChange;
  }

  get open(): boolean {
    return this.#open;
  }

  succeeded(): void {
    this.#failures = 0;
  }

  /** Counts a failed call. `isCertain`: no other would succeed, so it opens at once. */
  failed(reason: string, isCertain = false): void {
    this.#failures++;
    if ((this.#failures < FAILURES_TO_OPEN && !isCertain) || this.#open || this.#stopped) return;
    this.#open = true;
    this.#timer = setTimer(this.#runProbe, PROBE_EVERY_MS);
    this.#onChange(true, reason);
  }

  /** Handles a recovery hint: probes at once if the breaker is open. */
  probeNow(): void {
    if (this.#open && !this.#stopped) void this.#runProbe();
  }

  /** Ends the probes; the state no longer changes. */
  stop(): void {
    this.#stopped = true;
    clearTimer(this.#timer);
  }

  readonly #runProbe = async (): Promise<void> => {
    clearTimer(this.#timer);
    const number = ++this.#probes;
    try {
      await this.#probe();
      if (!this.#open || this.#stopped) return;
      clearTimer(this.#timer);
      this.#open = false;
      this.#failures = 0;
      this.#onChange(false, 'probe succeeded');
    } catch {
      if (number === this.#probes && this.#open && !this.#stopped)
        this.#timer = setTimer(this.#runProbe, PROBE_EVERY_MS);
    }
  };
}
