import { clearTimer, setTimer, type Timer } from './clock.ts';
import { withDeadline } from './deadline.ts';

/** Callback after each call of a dependency, probes included. */
export type OnCall = (seconds: number, succeeded: boolean) => void;

/** Maximum time callers wait for a probe after a recovery hint. */
const PROBE_WAIT_MS = 50;

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
  #pendingProbe: Promise<void> | undefined;
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
    if (!this.#open || this.#pendingProbe || this.#closed) return;
    const probed = withDeadline(this.#runProbe(), PROBE_WAIT_MS).catch(() => {});
    this.#pendingProbe = probed.then(() => {
      this.#pendingProbe = undefined;
    });
  }

  /** Resolves when the probe after a recovery hint has ended, after 50 ms at the latest; undefined without one. */
  get pendingProbe(): Promise<void> | undefined {
    return this.#pendingProbe;
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
