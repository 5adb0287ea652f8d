import { clearTimer, setTimer, type Timer } from './clock.ts';

/** Callback after each call of a dependency, probes included. */
export type OnCall = (seconds: number, succeeded: boolean) => void;

interface BreakerOptions {
  probe: () => Promise<unknown>;
  failuresToOpen: number;
  probeEveryMs: number;
  onChange: (open: boolean, reason: string) => void;
}

/**
 * Circuit breaker. It opens after `failuresToOpen` failures without a success between them. While it is open, a probe
 * runs every `probeEveryMs`, so that no client request is spent on detecting the recovery.
 */
export class CircuitBreaker {
  readonly #options: BreakerOptions;
  #failures = 0;
  #open = false;
  #timer: Timer | undefined;
  /** number of the latest probe */
  #probes = 0;
  #closed = false;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get open(): boolean {
    return this.#open;
  }

  succeeded(): void {
    this.#failures = 0;
  }

  /** Counts a failed call, as `weight` failures. */
  failed(reason: string, weight = 1): void {
    this.#failures += weight;
    if (this.#failures < this.#options.failuresToOpen || this.#open || this.#closed) return;
    this.#open = true;
    this.#timer = setTimer(this.#runProbe, this.#options.probeEveryMs);
    this.#options.onChange(true, reason);
  }

  /** Handles a recovery hint: probes at once if the breaker is open. */
  probeNow(): void {
    if (this.#open && !this.#closed) void this.#runProbe();
  }

  close(): void {
    this.#closed = true;
    clearTimer(this.#timer);
  }

  readonly #runProbe = async (): Promise<void> => {
    clearTimer(this.#timer);
    const number = ++this.#probes;
    try {
      await this.#options.probe();
      if (!this.#open || this.#closed) return;
      clearTimer(this.#timer);
      this.#open = false;
      this.#failures = 0;
      this.#options.onChange(false, 'probe succeeded');
    } catch {
      if (number === this.#probes && this.#open && !this.#closed)
        this.#timer = setTimer(this.#runProbe, this.#options.probeEveryMs);
    }
  };
}
