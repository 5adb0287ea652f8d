/** Is told of each call of a dependency when it has ended, probes included. */
export type OnCall = (seconds: number, succeeded: boolean) => void;

/**
 * Keeps callers away from a dependency that fails. It opens after a run of failures without a success;
 * while it is open a probe asks the dependency now and then, so no client pays for finding out that it is back.
 */
export class Breaker {
  readonly #probe: () => Promise<unknown>;
  readonly #failuresToOpen: number;
  readonly #probeEveryMs: number;
  readonly #onChange: (open: boolean, reason: string) => void;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
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
    return this.#timer !== undefined;
  }

  succeeded(): void {
    this.#failures = 0;
  }

  /** `weight`: as how many failures it counts. */
  failed(reason: string, weight = 1): void {
    this.#failures += weight;
    if (this.#failures < this.#failuresToOpen || this.#timer || this.#closed) return;
    this.#timer = setTimeout(this.#tryAgain, this.#probeEveryMs);
    this.#onChange(true, reason);
  }

  /** Ends the probing. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  readonly #tryAgain = async (): Promise<void> => {
    try {
      await this.#probe();
      if (this.#closed) return;
      this.#timer = undefined;
      this.#failures = 0;
      this.#onChange(false, 'it answers again');
    } catch {
      if (!this.#closed) this.#timer = setTimeout(this.#tryAgain, this.#probeEveryMs);
    }
  };
}
