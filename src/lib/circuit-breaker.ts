import { withDeadline } from './shutdown.ts';

/** Is told of each call of a dependency when it has ended, probes included. */
export type OnCall = (seconds: number, succeeded: boolean) => void;

/** For so long at most an open breaker holds callers while its probe is believed to succeed. */
const PROBE_WAIT_MS = 50;

/**
 * Keeps callers away from a dependency that fails. It opens after a run of failures without a success;
 * while it is open a probe asks the dependency now and then, so no client pays for finding out that it is back.
 */
export class CircuitBreaker {
  readonly #probe: () => Promise<unknown>;
  readonly #failuresToOpen: number;
  readonly #probeEveryMs: number;
  readonly #onChange: (open: boolean, reason: string) => void;
  #failures = 0;
  #open = false;
  #closedAtMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  /** the probe that was begun last */
  #probes = 0;
  #pendingProbe: Promise<void> | undefined;
  #closed = false;

  constructor(options: {
    probe: () => Promise<unknown>;
    failuresToOpen: number;
    probeEveryMs: number;
    onChange: (open: boolean, reason: string) => void;
  }) {
    this.#probe = options.probe;
    this.#failuresToOpen = options.failuresToOpen;
    this.#probeEveryMs = options.probeEveryMs;
    this.#onChange = options.onChange;
  }

  get open(): boolean {
    return this.#open;
  }

  /** True while it is open, and for so long after. */
  wasOpenWithin(ms: number): boolean {
    return this.#open || performance.now() - this.#closedAtMs < ms;
  }

  succeeded(): void {
    this.#failures = 0;
  }

  /** `weight`: as how many failures it counts. */
  failed(reason: string, weight = 1): void {
    this.#failures += weight;
    if (this.#failures < this.#failuresToOpen || this.#open || this.#closed) return;
    this.#open = true;
    this.#timer = setTimeout(this.#tryAgain, this.#probeEveryMs);
    this.#onChange(true, reason);
  }

  /** Word has come that the dependency is back: it is probed at once. */
  probeNow(): void {
    if (!this.#open || this.#pendingProbe || this.#closed) return;
    const probed = withDeadline(this.#tryAgain(), PROBE_WAIT_MS).catch(() => {});
    this.#pendingProbe = probed.then(() => {
      this.#pendingProbe = undefined;
    });
  }

  /** Resolves when the probe that is believed to succeed has ended, or after 50 ms; undefined: there is none. */
  get pendingProbe(): Promise<void> | undefined {
    return this.#pendingProbe;
  }

  /** Ends the probing. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  readonly #tryAgain = async (): Promise<void> => {
    clearTimeout(this.#timer);
    const number = ++this.#probes;
    try {
      await this.#probe();
      if (!this.#open || this.#closed) return;
      clearTimeout(this.#timer);
      this.#open = false;
      this.#closedAtMs = performance.now();
      this.#failures = 0;
      this.#onChange(false, 'it answers again');
    } catch {
      if (number === this.#probes && this.#open && !this.#closed)
        this.#timer = setTimeout(this.#tryAgain, this.#probeEveryMs);
    }
  };
}
